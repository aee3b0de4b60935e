// The command line as plain data. This room is a face: it reads arguments, calls the engine and
// prints; it decides nothing.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/units.h"
#include "engine/sampling.h"

namespace tessera {

enum class Command {
  kTrain,
  kEval,
  kGenerate,
  kVerify,
  kExplain,
  kInspect,
  kFuzz,
  kSolve,
  kLaunch,
  kDemo
};

struct Arguments {
  Command command = Command::kDemo;
  std::string file;  // CONFIG.toml; of eval and generate a checkpoint; of inspect any file or
                     // folder; of fuzz a case, or ""; of solve a problem
  std::string name;  // of explain: values and ops to explain, a name or a pattern; "": the whole
  std::optional<std::string> plan;  // a file, or "serial"
  std::optional<int> ranks;
  std::optional<int64_t> steps;
  std::vector<std::string> sets;      // "train.steps=10"
  std::string out;                    // folder to write into; "": none
  std::optional<std::string> resume;  // the checkpoint to go on from; "": the latest in `out`
  std::string trace;                  // of train: file to write a trace into; "": none
  int64_t trace_steps = 3;            // of which so many
  std::string prompt;                 // of generate
  std::optional<int64_t> tokens;
  SamplingOptions sampling;      // its seed is that of fuzz, too
  std::optional<int64_t> cases;  // of fuzz
  double minutes = 0;            // of fuzz; 0: no limit
  double time_limit = 60;        // of solve, in seconds
  std::optional<int> threads;    // of solve
  std::optional<int64_t> work;   // of solve, instead of time
  std::optional<int> rank;       // of explain: whose program to print
  Seconds rank_deadline{
      10};  // of runs in several processes: one that gives no sign of life for so long is lost
  std::optional<int> processes;  // of launch
  int restarts = 0;              // of launch
  std::vector<std::string>
      launched;  // of launch: the command that the processes run, and its arguments
  bool check_replicas = false;
  bool stages = false;
  bool json = false;
};

/// What was asked for: a command, or only a text such as the help.
using CommandLine = std::variant<Arguments, std::string>;

/// Reads the words after the program's name.
/// throws  UserError (2): an unknown command or option with the nearest legal one, a missing or
/// malformed argument, what this version does not do
CommandLine parse_command_line(std::vector<std::string> words);

}  // namespace tessera
