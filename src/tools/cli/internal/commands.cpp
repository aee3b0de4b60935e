// The table of commands. A new command is a file in commands/ and a line here.
#include "tools/cli/internal/command.h"
#include "tools/cli/internal/commands/calibrate.h"
#include "tools/cli/internal/commands/demo.h"
#include "tools/cli/internal/commands/eval.h"
#include "tools/cli/internal/commands/explain.h"
#include "tools/cli/internal/commands/export.h"
#include "tools/cli/internal/commands/fuzz.h"
#include "tools/cli/internal/commands/generate.h"
#include "tools/cli/internal/commands/inspect.h"
#include "tools/cli/internal/commands/launch.h"
#include "tools/cli/internal/commands/measure.h"
#include "tools/cli/internal/commands/plan.h"
#include "tools/cli/internal/commands/predict.h"
#include "tools/cli/internal/commands/simulate.h"
#include "tools/cli/internal/commands/solve.h"
#include "tools/cli/internal/commands/train.h"
#include "tools/cli/internal/commands/verify.h"

namespace tessera {
namespace {

template <typename AnyCommand>
std::unique_ptr<Command> make() {
  return std::make_unique<AnyCommand>();
}

constexpr bool kOneProcess = false, kSeveralProcesses = true;

constexpr CommandEntry kCommands[] = {
    {"train", "Train a model, serially or on the ranks of a plan", kSeveralProcesses,
     make<TrainCommand>},
    {"eval", "Measure the validation loss of a checkpoint", kSeveralProcesses, make<EvalCommand>},
    {"generate", "Continue a text with the model of a checkpoint", kSeveralProcesses,
     make<GenerateCommand>},
    {"predict", "Write the predictions of a checkpoint for data of your own", kSeveralProcesses,
     make<PredictCommand>},
    {"export", "Write the parameters of a checkpoint as a safetensors file", kOneProcess,
     make<ExportCommand>},
    {"verify", "Compare a plan with the serial program, tensor by tensor", kSeveralProcesses,
     make<VerifyCommand>},
    {"plan", "Find the fastest plan for a configuration on a cluster", kOneProcess,
     make<PlanCommand>},
    {"explain", "Show the placement of every tensor, what is communicated, and why", kOneProcess,
     make<ExplainCommand>},
    {"simulate", "Predict the step of a plan on a cluster: its time, memory and waits", kOneProcess,
     make<SimulateCommand>},
    {"measure", "Measure this machine, or processes, and write a cluster file", kSeveralProcesses,
     make<MeasureCommand>},
    {"calibrate", "Correct a cluster file by the measured steps of a few runs", kOneProcess,
     make<CalibrateCommand>},
    {"inspect", "Describe a plan, a configuration, a cluster, a checkpoint or a text", kOneProcess,
     make<InspectCommand>},
    {"fuzz", "Compare random programs under random placements with the serial programs",
     kOneProcess, make<FuzzCommand>},
    {"solve", "Solve an intra-operator problem in the public contest's format", kOneProcess,
     make<SolveCommand>},
    {"launch", "Run a command on several processes, and restart it when one is lost", kOneProcess,
     make<LaunchCommand>},
    {"demo", "Train a small GPT serially and on four ranks, compare, and generate text",
     kOneProcess, make<DemoCommand>},
};

}  // namespace

std::span<const CommandEntry> commands() {
  return kCommands;
}

}  // namespace tessera
