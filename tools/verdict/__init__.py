"""Whether the line at exit is true."""
