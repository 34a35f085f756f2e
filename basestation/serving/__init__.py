"""A serial forwarder, so that other TinyOS programs can use the gateway at the same time."""
