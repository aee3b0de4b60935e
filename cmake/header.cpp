// The target of a precompiled header: see modules.cmake.
