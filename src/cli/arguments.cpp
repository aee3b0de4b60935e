#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "plan/plan.h"

namespace tessera {
namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "   0  done                        65  bad model or data\n"
    "   1  any other failure           66  missing input\n"
    "   2  usage                       69  a rank was lost: killed, stopped, cut off\n"
    "   3  no feasible plan            70  internal error: a fault of this program\n"
    "   4  out of memory               75  preempted, a checkpoint was written\n"
    "   5  diverged: not a number      78  bad configuration or plan\n"
    "   6  verification failed\n";

/// One word of the program and what it does.
struct CommandInfo {
  Command command;
  const char* name;
  const char* description;
};

constexpr CommandInfo kCommands[] = {
    {Command::kTrain, "train", "Train a model, on one process or divided as a plan says"},
    {Command::kEval, "eval", "Measure the held-out loss of a checkpoint"},
    {Command::kGenerate, "generate", "Let the model of a checkpoint go on with a text"},
    {Command::kVerify, "verify", "Compare a plan with the serial program, tensor by tensor"},
    {Command::kExplain, "explain",
     "Show where everything lies under a plan, what is communicated, and why"},
    {Command::kInspect, "inspect", "Say what a plan, a configuration, a checkpoint or a text is"},
    {Command::kFuzz, "fuzz",
     "Run random programs under random placements and compare them with the serial ones"},
    {Command::kSolve, "solve", "Solve an intra-operator problem in the public contest's format"},
    {Command::kLaunch, "launch",
     "Start a command as several processes, and again after one is lost"},
    {Command::kDemo, "demo",
     "Train a small GPT serially and on four ranks, compare, and let it write"},
};

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw UserError(what, why, fix, ExitCode::kUsage);
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandInfo& info : kCommands) names.emplace_back(info.name);
  return names;
}

/// An option whose value is a whole number of at least `least`; `target` is one, or may be none.
template <typename Target, typename Number>
void add_number(CLI::App& app, const std::string& option, Target& target, Number least,
                const std::string& description) {
  const auto read = [option, &target, least](const std::string& text) {
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < least)
      refuse(option + " " + text + " is not possible",
             option + " takes a whole number of at least " + std::to_string(least),
             "write " + option + " " + std::to_string(least + 1));
    target = number;
  };
  app.add_option_function<std::string>(option, read, description)->type_name("N");
}

/// An option whose value is a number; what it means is checked where it is used.
void add_real(CLI::App& app, const std::string& option, double& target,
              const std::string& description) {
  const auto read = [option, &target](const std::string& text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target);
    if (error != std::errc{} || end != text.data() + text.size())
      refuse(option + " " + text + " is not possible", option + " takes a number",
             "write " + option + " 0.8");
  };
  app.add_option_function<std::string>(option, read, description)->type_name("X");
}

/// One whose value is a whole number, into a plain number.
template <typename Number>
void add_count(CLI::App& app, const std::string& option, Number& target,
               const std::string& description) {
  const auto read = [option, &target](const std::string& text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target);
    if (error != std::errc{} || end != text.data() + text.size())
      refuse(option + " " + text + " is not possible", option + " takes a whole number",
             "write " + option + " 1");
  };
  app.add_option_function<std::string>(option, read, description)->type_name("N");
}

void add_configured_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--plan", arguments.plan,
                 "A plan file, or 'serial'; default: that of the checkpoint, or the "
                 "configuration's [parallel], else serial")
      ->type_name("FILE|serial");
  add_number(app, "--ranks", arguments.ranks, 1,
             "Ranks, as threads of this process; default: as many as the plan needs");
}

void add_sets(CLI::App& app, Arguments& arguments) {
  app.add_option("--set", arguments.sets,
                 "Override a key of the configuration: --set train.steps=10")
      ->type_name("key=value")
      ->allow_extra_args(false);
}

void add_generate_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--prompt", arguments.prompt, "The text to go on with")
      ->type_name("TEXT")
      ->required();
  add_number(app, "--tokens", arguments.tokens, int64_t{0}, "Tokens to draw; default: 100");
  add_real(app, "--temperature", arguments.sampling.temperature,
           "Logits are divided by it; 0: the likeliest token; default: 1");
  add_count(app, "--top-k", arguments.sampling.top_k,
            "Then only the N likeliest are left; 0, the default: all");
  add_real(app, "--top-p", arguments.sampling.top_p,
           "Then only the fewest likeliest that sum to this probability; default: 1, all");
  add_count(app, "--seed", arguments.sampling.seed, "Of the random numbers; default: 1");
  app.add_flag("!--no-cache", arguments.sampling.cache,
               "Read the whole text anew for each token, instead of keeping keys and values");
}

void add_fuzz_options(CLI::App& app, Arguments& arguments) {
  app.add_option("CASE", arguments.file,
                 "A case in a file, as a failure prints it; default: random ones");
  add_number(app, "--cases", arguments.cases, int64_t{1},
             "Random programs to run; default: 2000, or as many as --minutes allows");
  add_count(app, "--seed", arguments.sampling.seed,
            "Of the first; the next has the next number; default: 1");
  add_real(app, "--minutes", arguments.minutes, "Stop after this time");
}

void add_solve_options(CLI::App& app, Arguments& arguments) {
  app.add_option("PROBLEM", arguments.file, "A problem in the contest's form, .json or .json.gz")
      ->required();
  add_real(app, "--time-limit", arguments.time_limit,
           "Seconds, reading the file included; default: 60");
  add_number(
      app, "--work", arguments.work, int64_t{1},
      "Instead of time: millions of table entries; then any number of threads answers alike");
  add_number(app, "--threads", arguments.threads, 1, "Default: 2");
  add_count(app, "--seed", arguments.sampling.seed, "Of the random numbers; default: 1");
}

void add_launch_options(CLI::App& app, Arguments& arguments) {
  add_number(app, "-n,--processes", arguments.processes, 1,
             "Processes to start, by srun in a Slurm job and by mpirun elsewhere");
  add_count(app, "--restarts", arguments.restarts,
            "Start anew up to so many times when a process is lost, from the last checkpoint in "
            "--out; default: 0");
}

void add_rank_deadline(CLI::App& app, Arguments& arguments) {
  const auto read = [&arguments](const std::string& text) {
    double seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc{} || end != text.data() + text.size() || !(seconds >= 1))
      refuse("--rank-deadline " + text + " is not possible",
             "--rank-deadline takes a number of seconds of at least 1", "write --rank-deadline 10");
    arguments.rank_deadline = Seconds(seconds);
  };
  app.add_option_function<std::string>("--rank-deadline", read,
                                       "Of several processes: one that gives no sign of life for "
                                       "so many seconds is lost; default: 10")
      ->type_name("S");
}

void add_options(CLI::App& app, Command command, Arguments& arguments) {
  if (command == Command::kLaunch) return add_launch_options(app, arguments);
  const auto steps = [&](const char* description) {
    add_number(app, "--steps", arguments.steps, int64_t{0}, description);
  };
  if (command == Command::kInspect)
    app.add_option("FILE", arguments.file,
                   "A plan.json, a CONFIG.toml, a checkpoint or a run, a safetensors file, or text")
        ->required();
  else if (command == Command::kEval || command == Command::kGenerate)
    app.add_option("CHECKPOINT", arguments.file,
                   "A checkpoint, or the --out folder of a run: its latest")
        ->required();
  else if (command != Command::kDemo && command != Command::kFuzz && command != Command::kSolve)
    app.add_option("CONFIG", arguments.file, "The configuration, a TOML file")->required();
  if (command != Command::kInspect && command != Command::kDemo && command != Command::kFuzz &&
      command != Command::kSolve)
    add_configured_options(app, arguments);
  if (command != Command::kFuzz && command != Command::kSolve) add_sets(app, arguments);
  if (command == Command::kTrain || command == Command::kEval || command == Command::kGenerate)
    add_rank_deadline(app, arguments);
  switch (command) {
    case Command::kTrain:
      steps("Length of the run; default: train.steps");
      app.add_option("--out", arguments.out,
                     "Folder for plan.json, config.json, metrics.jsonl, logs, TensorBoard events "
                     "and checkpoints")
          ->type_name("DIR");
      app.add_flag("--resume", arguments.resume,
                   "Go on from the latest checkpoint in --out, or from --resume=CHECKPOINT, under "
                   "its plan unless --plan is given");
      app.add_option("--trace", arguments.trace,
                     "File for a trace of what every rank does when: open it in ui.perfetto.dev")
          ->type_name("FILE");
      add_number(app, "--trace-steps", arguments.trace_steps, int64_t{1},
                 "Steps in the trace, after two that warm up; default: 3");
      app.add_flag("--check-replicas", arguments.check_replicas,
                   "After each step compare a hash of every variable with those of its replicas");
      break;
    case Command::kEval: break;
    case Command::kGenerate: add_generate_options(app, arguments); break;
    case Command::kVerify: steps("Steps to compare; default: 20"); break;
    case Command::kExplain:
      app.add_option("NAME", arguments.name,
                     "Values and ops to explain: a name or a pattern such as 'blocks.*.attn.q'");
      app.add_flag("--stages", arguments.stages, "Print what each stage of the compiler made");
      add_number(app, "--rank", arguments.rank, 0,
                 "Print what this rank does in a step, a line an act");
      break;
    case Command::kInspect:
    case Command::kLaunch: break;
    case Command::kFuzz: add_fuzz_options(app, arguments); break;
    case Command::kSolve: add_solve_options(app, arguments); break;
    case Command::kDemo:
      steps("Length of the run; default: train.steps of configs/gpt.toml");
      break;
  }
  app.add_flag("--json", arguments.json,
               "Print one JSON object on standard output; everything else goes to standard error");
}

/// Lets one --set take several overrides: before each further word with a '=' stands a --set of its
/// own.
std::vector<std::string> spread_sets(const std::vector<std::string>& words) {
  std::vector<std::string> spread;
  bool after_set = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool is_value = i > 0 && words[i - 1] == "--set";
    const bool is_override = !words[i].starts_with("-") && words[i].find('=') != std::string::npos;
    if (after_set && is_override && !is_value) spread.emplace_back("--set");
    spread.push_back(words[i]);
    after_set = words[i] == "--set" || (after_set && is_override);
  }
  return spread;
}

void refuse_later_options(const std::vector<std::string>& words) {
  const auto plan = std::find(words.begin(), words.end(), "--plan");
  if (std::find(words.begin(), words.end(), "--plan=auto") != words.end() ||
      (plan != words.end() && plan + 1 != words.end() && *(plan + 1) == "auto"))
    refuse("--plan auto is not possible",
           "this version of tessera does not search for a plan: it runs the plan that it is given",
           "give a plan file such as configs/plans/gpt.dp2-tp2.json, or --plan serial");
}

/// The positional arguments, for messages.
std::string usage_of(Command command) {
  switch (command) {
    case Command::kTrain:
    case Command::kVerify: return "one argument, CONFIG";
    case Command::kExplain: return "one or two arguments, CONFIG and NAME";
    case Command::kEval:
    case Command::kGenerate: return "one argument, CHECKPOINT";
    case Command::kInspect: return "one argument, FILE";
    case Command::kFuzz: return "at most one argument, CASE";
    case Command::kSolve: return "one argument, PROBLEM";
    case Command::kLaunch: return "its options, --, and a command with its arguments";
    case Command::kDemo: return "no argument";
  }
  throw InternalError("unknown command");
}

/// CLI11 would take the option that follows for the value.
void check_values_are_given(const CLI::App& app, const std::string& command,
                            const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const CLI::Option* option =
        words[i].starts_with("--") ? app.get_option_no_throw(words[i]) : nullptr;
    if (!option || option->get_items_expected_max() == 0 ||
        (i + 1 < words.size() && !words[i + 1].starts_with("--")))
      continue;
    refuse("tessera " + command + ": " + words[i] + " has no value",
           "the option is the last word, or another option follows it",
           "write the value after " + words[i]);
  }
}

[[noreturn]] void refuse_extra(const CLI::App& app, const CommandInfo& info,
                               const std::vector<std::string>& words) {
  const std::string first = words.empty() ? "" : split_text(words.front(), '=').front();
  std::vector<std::string> legal;
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional()) legal.push_back("--" + option->get_lnames().front());
  const std::string command = std::string("tessera ") + info.name;
  if (!first.starts_with("-"))
    refuse(command + ": '" + first + "' is one argument too many",
           "the command takes " + usage_of(info.command),
           "remove it, or write the option that it belongs to before it");
  const std::string close = nearest(first, legal);
  refuse(command + ": unknown option '" + first + "'",
         "legal options here are " + join(legal, ", "),
         close.empty() ? "remove it or use one of these" : "did you mean '" + close + "'?");
}

/// A flag without a value reads "true".
void settle_resume(Arguments& arguments) {
  if (!arguments.resume || arguments.resume != "true") return;
  if (arguments.out.empty())
    refuse("--resume does not say from where",
           "it goes on from the latest checkpoint in the folder of --out",
           "add --out DIR of the run that is to go on, or name a checkpoint: "
           "--resume=DIR/checkpoints/step-00000100");
  arguments.resume = "";
}

/// Takes what stands behind "--" out of `words`: the command that is launched.
std::vector<std::string> take_launched(std::vector<std::string>& words) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const bool wants_help = std::find(words.begin(), dashes, "--help") != dashes ||
                          std::find(words.begin(), dashes, "-h") != dashes;
  if (!wants_help && (dashes == words.end() || dashes + 1 == words.end()))
    refuse("tessera launch is not told what to launch", "the command stands behind --",
           "write tessera launch -n 4 -- train CONFIG --plan FILE --out DIR");
  std::vector<std::string> launched(dashes == words.end() ? dashes : dashes + 1, words.end());
  words.erase(dashes, words.end());
  return launched;
}

void check_launch(const Arguments& arguments) {
  if (!arguments.processes)
    refuse("tessera launch is not told how many processes to start",
           "each process runs one rank of the plan", "write -n and the plan's ranks");
  if (arguments.restarts < 0)
    refuse("--restarts " + std::to_string(arguments.restarts) + " is not possible",
           "it is a number of times, at least 0", "write --restarts 1");
}

CommandLine parse_command(const CommandInfo& info, std::vector<std::string> words) {
  Arguments arguments;
  arguments.command = info.command;
  if (info.command == Command::kLaunch) arguments.launched = take_launched(words);
  refuse_later_options(words);
  CLI::App app(info.description, std::string("tessera ") + info.name);
  add_options(app, info.command, arguments);
  app.footer(kExitCodes);
  check_values_are_given(app, info.name, words);
  std::vector<std::string> reversed = spread_sets(words);
  std::reverse(reversed.begin(), reversed.end());  // as CLI11 takes them
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ExtrasError&) {
    refuse_extra(app, info, app.remaining());
  } catch (const CLI::ParseError& error) {
    refuse(std::string("tessera ") + info.name + ": " + error.what(),
           "the command takes " + usage_of(info.command) + ", and options with their values",
           std::string("see tessera ") + info.name + " --help");
  }
  settle_resume(arguments);
  if (info.command == Command::kLaunch) check_launch(arguments);
  return arguments;
}

std::string general_help() {
  std::string text =
      "tessera: trains one serial model on many processes and shows that nothing changes\n\nUsage: "
      "tessera COMMAND ...\n\nCommands:\n";
  for (const CommandInfo& info : kCommands)
    text += "  " + std::string(info.name) +
            std::string(10 - std::string_view(info.name).size(), ' ') + info.description + "\n";
  return text +
         "\ntessera COMMAND --help lists its options; tessera --version prints the version.\n\n" +
         kExitCodes;
}

}  // namespace

CommandLine parse_command_line(std::vector<std::string> words) {
  // `tessera --json train ...` is meant as `tessera train ... --json`.
  if (!words.empty() && words[0] == "--json")
    std::rotate(words.begin(), words.begin() + 1, words.end());
  if (words.empty() || words[0] == "--json")
    refuse("tessera was given no command", "the commands are " + join(command_names(), ", "),
           "start with tessera demo; tessera --help says what each does");
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") return general_help();
  if (words[0] == "--version") return "tessera " + std::string(version()) + "\n";
  for (const CommandInfo& info : kCommands)
    if (words[0] == info.name) return parse_command(info, {words.begin() + 1, words.end()});
  const std::string close = nearest(words[0], command_names());
  refuse("tessera has no command '" + words[0] + "'",
         "the commands are " + join(command_names(), ", "),
         close.empty() ? "use one of these; tessera --help says what each does"
                       : "did you mean 'tessera " + close + "'?");
}

}  // namespace tessera
