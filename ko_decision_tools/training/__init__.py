"""How the checkpoints are made: a recipe, its rows, the loss over a row's options, and the export.

Not imported by anything below the command line; needs the ``lab`` extra (``accelerate``).
"""
