"""Ops of several ranks: what moves values from one to another, and sums over ranks made of them."""
