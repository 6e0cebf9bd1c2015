"""Kernels of users' own: functions of numbers in C, kernels over memory in C and CUDA C."""
