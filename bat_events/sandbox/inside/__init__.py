"""What runs inside the sandbox: stdlib only, mounted read-only as a folder of its own and never imported by the runtime."""
