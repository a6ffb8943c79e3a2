"""Evaluation: run a checkpoint once into a file of raw scores; everything after is a pure function of that file."""
