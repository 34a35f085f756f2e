"""The live page: rows and pictures of a run, a server that streams them to browsers, and who may read it."""
