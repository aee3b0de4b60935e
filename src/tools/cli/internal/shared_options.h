// Groups of options that several commands have in common.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "tools/cli/internal/option_parser.h"

namespace tessera {

/// --json: print the result as one JSON object.
struct OutputOptions {
  bool json = false;
};
void add_options(OptionParser& parser, OutputOptions& options);

/// --set key=value ...: overrides of the configuration.
struct OverrideOptions {
  std::vector<std::string> sets;  // "train.steps=10"
};
void add_options(OptionParser& parser, OverrideOptions& options);

/// CONFIG: what named_model reads (tools/cli/internal/run/named_model.h).
void add_model_argument(OptionParser& parser, std::string& file_or_name);
/// --batch, as named_model takes it.
void add_batch_option(OptionParser& parser, std::string& batch);
/// --runtime, as named_cluster takes it (tools/cli/internal/run/named_cluster.h).
void add_runtime_option(OptionParser& parser, std::string& runtime);

/// --plan and --ranks.
struct PlanOptions {
  std::optional<std::string> plan;  // a file, "serial", a preset or "auto"
  bool is_automatic() const { return plan == "auto"; }
  bool may_be_automatic() const { return !plan || is_automatic(); }
  std::optional<int> ranks;
  std::optional<int> processes = {};  // that run the command, when they are several
};
/// The number of ranks that the command line or the launcher gives.
std::optional<int> rank_count(const PlanOptions& options);

/// What --plan auto needs.
struct AutomaticOptions {
  std::optional<std::string> cluster = {};  // a file or one line; default: this machine
  std::string runtime = {};                 // a profile (profile_called); "": the usual one
  bool no_cache = false;
  std::optional<int> local_search = {};  // PlanSearchOptions::local_search_trials
  std::optional<int> measure_top = {};   // so many of the best plans are run, and the fastest taken
  /// Of several processes: the text that the leader makes, in all of them.
  std::function<std::string(const std::function<std::string()>& make)> from_leader = {};
};
/// --cluster and --no-cache.
void add_options(OptionParser& parser, AutomaticOptions& options);

/// CONFIG with --set, --plan, --cost and --ranks: a run that a configuration describes.
struct ConfigOptions {
  std::string file;
  OverrideOptions overrides = {};
  PlanOptions plan = {};
  std::string batch = {};                // ROWSxCONTEXT, of commands that have --batch
  std::optional<std::string> cost = {};  // a cost file: instead of the cost model of the plan
  AutomaticOptions automatic = {};       // a command has them by add_options of its own
};
void add_options(OptionParser& parser, ConfigOptions& options);

/// CHECKPOINT with --set, --plan and --ranks: a run that a checkpoint describes.
struct CheckpointOptions {
  std::string path;
  OverrideOptions overrides = {};
  PlanOptions plan = {};
};
void add_options(OptionParser& parser, CheckpointOptions& options);

/// --disable-pass and --verify-passes, for the commands that compile.
struct PassOptions {
  std::vector<std::string> disabled = {};
  bool verify = false;
};
void add_options(OptionParser& parser, PassOptions& options);

/// --rank-deadline, for the commands that run in several processes.
struct ProcessOptions {
  double rank_deadline = 10;
  Seconds deadline() const { return Seconds(rank_deadline); }
};
void add_options(OptionParser& parser, ProcessOptions& options);

}  // namespace tessera
