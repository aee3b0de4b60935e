#include "tools/cli/internal/shared_options.h"

namespace tessera {
namespace {

void refuse_automatic_plan(const PlanOptions& options) {
  if (!options.is_automatic()) return;
  refuse_usage("--plan auto is not supported for a checkpoint",
               "plans are found for the training step of a configuration",
               "give a preset such as --plan dp=2,tp=2, a plan file, or --plan serial");
}

/// --plan and --ranks.
///   forms    of the value of --plan
///   choices  of these in words, and the default
void add_plan_options(OptionParser& parser, PlanOptions& options, const std::string& forms,
                      const std::string& choices) {
  parser.text({"--plan", forms, choices}, options.plan);
  parser.number(
      {"--ranks", "N", "Ranks, as threads of this process; default: as many as the plan needs"},
      options.ranks, 1);
}

}  // namespace

void add_options(OptionParser& parser, OutputOptions& options) {
  parser.flag({"--json", "",
               "Print one JSON object on standard output; everything else goes to standard error"},
              options.json);
}

void add_model_argument(OptionParser& parser, std::string& file_or_name) {
  parser.argument(
      "CONFIG",
      "The configuration, a TOML file; or a graph file called *.graph, a config.json of Hugging "
      "Face or its folder, or a known model such as llama3-8b",
      file_or_name);
}

void add_batch_option(OptionParser& parser, std::string& batch) {
  parser.text({"--batch", "ROWSxCONTEXT", "The rows of a step and the tokens of a row: 1024x4096"},
              batch);
}

void add_runtime_option(OptionParser& parser, std::string& runtime) {
  parser.text({"--runtime", "NAME|FILE",
               "Whose software runs the step: tessera, torch-eager, torch-compile, megatron or a "
               "file of a profile; default: that of the cluster file, else torch-compile on GPUs"},
              runtime);
}

void add_options(OptionParser& parser, OverrideOptions& options) {
  parser.assignments(
      {"--set", "key=value", "Override keys of the configuration: --set train.steps=10"},
      options.sets);
}

std::optional<int> rank_count(const PlanOptions& options) {
  return options.ranks ? options.ranks : options.processes;
}

void add_options(OptionParser& parser, AutomaticOptions& options) {
  parser.text({"--cluster", "FILE|LINE",
               "The devices, a cluster file or one line such as '8xa100-80g': of --plan auto "
               "(default: this machine, as measure --keep kept it), and of the prediction that "
               "train prints "
               "beside the measured step"},
              options.cluster);
  parser.flag({"--no-cache", "", "For --plan auto: neither use nor keep plans of the cache folder"},
              options.no_cache);
  parser.number(
      {"--local-search",
       "N",
       "For --plan auto: simulate N other placements of the best plan, each of one class of ops, "
       "and take the fastest",
       {"--polish"}},
      options.local_search, 1);
  parser.number({"--measure-top", "K",
                 "For --plan auto: run the best K plans for five steps each, as threads of this "
                 "process, and take the fastest"},
                options.measure_top, 1);
}

void add_options(OptionParser& parser, ConfigOptions& options) {
  add_model_argument(parser, options.file);
  add_plan_options(
      parser, options.plan, "FILE|PRESET|serial|auto",
      "A plan file, a preset such as dp=2,tp=2, 'serial', or 'auto', which finds one; "
      "default: that of the checkpoint, or the configuration's [parallel], else 'auto' "
      "for several ranks and 'serial' for one");
  parser.text({"--cost", "FILE",
               "A cost file, by whose prices the compiler decides; default: the cost of the plan"},
              options.cost);
  add_options(parser, options.overrides);
}

void add_options(OptionParser& parser, CheckpointOptions& options) {
  parser.argument("CHECKPOINT", "A checkpoint, or the --out folder of a run: its latest",
                  options.path);
  add_plan_options(parser, options.plan, "FILE|PRESET|serial",
                   "A plan file, a preset such as dp=2,tp=2, or 'serial'; default: that of the "
                   "checkpoint");
  parser.check([&options] { refuse_automatic_plan(options.plan); });
  add_options(parser, options.overrides);
}

void add_options(OptionParser& parser, PassOptions& options) {
  parser.texts({"--disable-pass", "NAME",
                "Leave out an optional compiler pass, such as buckets; may be repeated"},
               options.disabled);
  parser.flag({"--verify-passes", "",
               "Check the task graph after each compiler pass, to find the pass with a fault"},
              options.verify);
}

void add_options(OptionParser& parser, ProcessOptions& options) {
  parser.real({"--rank-deadline", "S",
               "In runs of several processes: a process that sends no heartbeat for S seconds is "
               "lost; default: 10"},
              options.rank_deadline, 1);
}

}  // namespace tessera
