"""Instructions of the accelerator: passes that find them, and the emitter."""
