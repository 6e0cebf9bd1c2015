"""What runs where no plan does."""
