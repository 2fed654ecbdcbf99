"""Result rows and their conversions."""
