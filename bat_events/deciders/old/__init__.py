"""Earlier versions of deciders: what campaigns that pin them are decided and replayed by.

An old version says in which way it differs from the next one and inherits the rest. Before an inherited method is changed,
copy the present one into the old class. Golden logs (tests/golden) and the interleaving tests hold every version.
"""
