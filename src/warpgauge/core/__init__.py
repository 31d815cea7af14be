"""The mathematics of the paper: numbers only, no image, file, web or command line."""
