"""The parts of a tool."""
