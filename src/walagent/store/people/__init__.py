"""What people list, show and change with commands."""
