"""What the host's own tools print: memory, disks, containers, packages, processes. A module each, so that a log loads none in vain."""
