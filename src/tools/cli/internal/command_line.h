// Parses the command line: the command and its options.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tools/cli/internal/command.h"

namespace tessera {

/// A command whose options are set.
struct ParsedCommand {
  const CommandEntry* entry;
  std::unique_ptr<Command> command;
};

/// The request of a command line: a command, or only a text such as the help.
using CommandLine = std::variant<ParsedCommand, std::string>;

/// Parses the words after the program's name.
///   throws  UserError (2) for an unknown command or option (with the most similar legal one), a
///           missing or malformed argument, or a feature that this version lacks
CommandLine parse_command_line(std::vector<std::string> words);

}  // namespace tessera
