"""Dumps of GPU monitors: nvidia-smi in every shape it prints, and its neighbours. Layouts: reference/nvidia-smi.md.

All of them read by meaning, never by column: the layout has changed in every second driver branch and pastes are damaged. What is not
stated is None; a figure that could be two things is not read at all.
"""
