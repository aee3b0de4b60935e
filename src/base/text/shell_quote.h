// Quotes words for a shell, for messages that give a command to copy.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// `word` as a shell reads it back: in single quotes when it has a character that a shell may
/// interpret.
///   example  shell_quoted("my run") = "'my run'"
std::string shell_quoted(std::string_view word);

}  // namespace tessera
