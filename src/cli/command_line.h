// The command line: which command its words ask for, with its options.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cli/command.h"

namespace tessera {

/// A command whose options are set.
struct ParsedCommand {
  const CommandEntry* entry;
  std::unique_ptr<Command> command;
};

/// What was asked for: a command, or only a text such as the help.
using CommandLine = std::variant<ParsedCommand, std::string>;

/// Reads the words after the program's name.
///   throws  UserError (2): an unknown command or option with the nearest legal one, a missing or
///           malformed argument, what this version does not do
CommandLine parse_command_line(std::vector<std::string> words);

}  // namespace tessera
