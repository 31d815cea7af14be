"""Readers and writers of images, landmark files and transform files."""
