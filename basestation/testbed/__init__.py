"""The testbed's Python side: what to run, and what the truth says afterwards. firmware/testbed emulates the motes.

From a command to an engine: `topologies` says who hears whom, `faults` turns a timeline into a script, `images` finds
or builds the firmware, `scenario` puts it all into the text that `engine` gives to the C program.

From its log to a `report`: `truth` reads it, `air` decodes what was sent, `clocks` what motes took for the time, `host`
what gateways said; `judge` puts that together, and `pcap` shows the ether to Wireshark.
"""
