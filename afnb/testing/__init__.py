"""Public helps for tests of agents and of code that builds on afnb."""
