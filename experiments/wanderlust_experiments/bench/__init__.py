"""`wanderlust bench`: how fast this machine steps environments and learns, beside other libraries."""
