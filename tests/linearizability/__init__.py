"""Histories of concurrent clients: is there one order of all operations that explains every reply?"""
