"""Published kits for those who build on Homeostat: conformance suites, real servers, a manual clock."""
