// What is likely wrong with a path at which nothing is.
#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// "; '~' stands for the home folder in a shell only" and the same of patterns: to be added to the
/// reason why a path cannot be read. "" for other paths, and for a path that exists.
///
///     unexpanded_note("~/a.txt")  "; '~' is expanded by a shell, not here"
std::string unexpanded_note(const std::filesystem::path& path);

}  // namespace tessera
