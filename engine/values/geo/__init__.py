"""Positions as members of a sorted set: the score of a member is its geohash.

trigonometry.py    sine, cosine and their inverses, the same on every machine
geohash.py         positions as numbers of 52 bits, and the cells of the grid that they make
distance.py        how far two positions are apart
shapes.py          circles, boxes and polygons: what is inside, and which cells may hold it
"""
