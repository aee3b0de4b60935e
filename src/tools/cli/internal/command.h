// The interface of a command of the program, and the table of all commands.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/cli/internal/option_parser.h"
#include "tools/launch/processes.h"

namespace tessera {

/// A command. Its members are its options.
class Command {
 public:
  virtual ~Command() = default;
  /// Adds the options; parsing writes their values into the members.
  virtual void describe(OptionParser& parser) = 0;
  /// Executes the command and prints the result.
  ///   returns  kDone, or the code of a result that is not an error, such as a failed verification
  ///   throws   UserError, InternalError
  virtual ExitCode run(Processes& processes) = 0;
  /// The ranks of its plan, for the commands that run in several processes.
  ///   throws  UserError of the configuration, the plan or the checkpoint
  virtual int rank_count() const { return 1; }

  std::vector<std::string> words;  // of the command line after its name, for messages
};

/// A line of the table of commands.
struct CommandEntry {
  const char* name;
  const char* help;
  bool in_several_processes;  // may mpirun or srun start it?
  std::unique_ptr<Command> (*make)();
  const char* example;  // a command line
};

/// The table, in the order of the help.
std::span<const CommandEntry> commands();

}  // namespace tessera
