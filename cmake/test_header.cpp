// The target of the precompiled header of the tests: see modules.cmake.
