"""Many records at once: envelopes and bodies as columns, without an object per event.

What a decoder of single records does in the same way for every record is done here for thousands of them with numpy. It
knows only what this project's writer writes; whatever is unusual in any way is left to the codec, record by record, which
says what is wrong with it. A test holds both ways against each other.
"""
