"""stub"""
PLANTS: dict = {}
