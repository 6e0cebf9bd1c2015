"""The form of passes."""
