"""Opens state directories, recorded ones and damaged ones among them, with or without an index outside."""
