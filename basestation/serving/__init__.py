"""Others may listen, too: a serial forwarder for the programs that TinyOS users have."""
