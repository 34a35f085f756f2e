"""How well links and clocks worked, in tables and while a folder of logs grows."""
