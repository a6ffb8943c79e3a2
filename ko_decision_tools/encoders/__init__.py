"""One file per way of scoring a prompt. ``base`` is the seam; ``scripted`` is the public fake for your own tests."""
