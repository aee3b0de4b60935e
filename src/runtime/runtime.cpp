#include "runtime/runtime.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>

#include "actors/run_check.h"
#include "base/error.h"
#include "runtime/crew.h"
#include "runtime/rank_program.h"

namespace tessera {
namespace {

Patience patience_for(int ranks) {
  constexpr Patience kOwnCore{.looks = 1000, .offers = 50}, kSharedCore{.looks = 0, .offers = 4};
  return static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency() ? kOwnCore : kSharedCore;
}

/// Each is a thread with a memory of its own, and every one meets every other: more of them are a mistake in a plan.
constexpr size_t kMostRanks = 1024;

void check_count(const std::vector<Rank>& ranks) {
  if (ranks.size() <= kMostRanks) return;
  throw UserError(std::to_string(ranks.size()) + " ranks do not run in one process",
                  "each is a thread with its own memory, and a process starts at most " + std::to_string(kMostRanks),
                  "use a plan with smaller meshes", ExitCode::kBadConfig);
}

std::vector<Rank> ascending(std::vector<Rank> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// The caller's tensor for an input, checked.
const std::byte* find_input(const TaskInput& input, const std::map<std::string, const Tensor*>& given) {
  const TensorType& type = input.type;
  const auto found = given.find(input.name);
  if (found == given.end() || !found->second)
    throw UserError("input '" + input.name + "' is missing", "the program reads it at every step",
                    "give a tensor " + to_text(type) + " of this name", ExitCode::kMissingInput);
  if (!(found->second->type() == type))
    throw UserError("input '" + input.name + "' is " + to_text(found->second->type()), "the program was made for " + to_text(type),
                    "give a tensor of that type", ExitCode::kBadData);
  return found->second->data();
}

/// The caller's tensor for a result, made when it is not there.
std::byte* find_result(const TensorType& type, const std::string& name, TensorMap& results) {
  Tensor& tensor = results[name];
  if (!tensor.data() || !(tensor.type() == type)) tensor = Tensor(type);
  return tensor.data();
}

}  // namespace

struct LoadedProgram::State {
  BoundProgram program;
  std::vector<const std::byte*> inputs;  // of the step: reused
  std::vector<std::byte*> results;
};

LoadedProgram::LoadedProgram(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedProgram::~LoadedProgram() = default;
const TaskGraph& LoadedProgram::graph() const {
  return *state_->program.graph;
}

struct Runtime::State {
  std::vector<Rank> processes;
  RuntimeOptions options;
  StopState stop;
  VariableStore variables;
  std::vector<std::unique_ptr<RankDevice>> devices;  // by rank index; nullptr where no program needs one
  std::vector<std::unique_ptr<LoadedProgram>> programs;
  std::vector<Recorder> recorders;  // by rank index; none: nothing is written down
  Recorder::Time trace_start;
  Crew crew;  // last: its threads end before what they use

  State(std::vector<Rank> all, RuntimeOptions runtime_options)
      : processes(std::move(all)), options(runtime_options), variables(processes), crew(static_cast<int>(processes.size())) {}

  /// Whoever runs `program` from now on writes down what it does, or no longer does.
  void set_recorders(const BoundProgram& program) {
    for (size_t index = 0; index < processes.size(); ++index)
      program.ranks[index]->record_into(recorders.empty() ? nullptr : &recorders[index]);
  }

  /// A rank gets a device when a program has a mesh of devices that it is in.
  void make_devices(const TaskGraph& graph) {
    devices.resize(processes.size());
    for (size_t mesh = 0; mesh < graph.meshes.size(); ++mesh)
      for (size_t index = 0; index < processes.size(); ++index)
        if (device_of(graph, static_cast<int>(mesh)) == DeviceKind::kFake && graph.meshes[mesh]->coordinate_of(processes[index]) &&
            !devices[index])
          devices[index] = std::make_unique<RankDevice>(make_fake_device(options.fake_device));
  }

  /// Variables on devices are seen and changed on the host, while the ranks rest.
  void fetch_variables() const {
    for (const auto& device : devices)
      if (device) device->fetch_variables();
  }
  void store_variables() const {
    for (const auto& device : devices)
      if (device) device->store_variables();
  }

  void throw_when_stopped() const {
    if (stop.stopped()) stop.rethrow();
  }

  /// The programs of the regions, as the ranks will find them.
  void add_regions(BoundProgram& program) const {
    program.ranks.resize(processes.size());
    program.actors = std::make_unique<TaskActors>(program.graph, program.processes);
    for (const Task& task : program.graph->tasks)
      for (const KernelStep& step : task.steps) {
        if (!step.control) continue;
        auto& bound = program.regions[step.control.get()];
        ensure(bound.empty(), "regions belong to one step");
        for (const TaskGraph& region : step.control->regions) {
          const std::shared_ptr<const TaskGraph> graph(program.graph, &region);
          bound.push_back(std::make_unique<BoundProgram>(BoundProgram{graph,
                                                                      program.processes,
                                                                      program.options,
                                                                      program.stop,
                                                                      program.variables,
                                                                      program.devices,
                                                                      program.patience,
                                                                      {},
                                                                      {},
                                                                      {},
                                                                      true}));
          add_regions(*bound.back());
        }
      }
  }

  /// The ranks each make their part, meeting after every stage of which the next reads what others made.
  void make_ranks(BoundProgram& program) {
    add_regions(program);
    crew.run([&program](int index) {
      auto& rank = program.ranks[static_cast<size_t>(index)];
      rank = std::make_unique<RankProgram>(program, index);
      rank->find_pulls();
    });
    crew.run([&program](int index) { program.ranks[static_cast<size_t>(index)]->bind(); });
  }
};

Runtime::Runtime(std::vector<Rank> processes, RuntimeOptions options) {
  ensure(std::is_sorted(processes.begin(), processes.end()), "processes are given in ascending order");
  check_count(processes);
  state_ = std::make_unique<State>(std::move(processes), options);
}
Runtime::Runtime(const MeshPtr& mesh, RuntimeOptions options) : Runtime(ascending(mesh->processes()), options) {}
Runtime::~Runtime() = default;

LoadedProgram& Runtime::load(std::shared_ptr<const TaskGraph> graph) {
  state_->throw_when_stopped();
  check(*graph);
  check_run(*graph, state_->processes);
  const std::vector<Rank> needed = processes(*graph);
  ensure(std::includes(state_->processes.begin(), state_->processes.end(), needed.begin(), needed.end()),
         "a program runs on processes of its runtime");
  const Bytes arena = *std::max_element(graph->arenas.begin(), graph->arenas.end());
  auto loaded = std::make_unique<LoadedProgram::State>();
  loaded->inputs.resize(graph->inputs.size());
  loaded->results.resize(graph->results.size());
  loaded->program = {std::move(graph),
                     state_->processes,
                     state_->options,
                     &state_->stop,
                     &state_->variables,
                     &state_->devices,
                     patience_for(ranks()),
                     {},
                     {},
                     {},
                     false};
  try {
    state_->variables.add(*loaded->program.graph);
    state_->make_devices(*loaded->program.graph);
    state_->make_ranks(loaded->program);
    state_->set_recorders(loaded->program);
  } catch (const std::bad_alloc&) {
    throw UserError("the program does not fit into the memory of this machine",
                    "each of " + std::to_string(ranks()) + " ranks holds up to " + to_text(arena) + " of activations besides its variables",
                    "use a smaller batch, a plan that divides more, or more machines", ExitCode::kOutOfMemory);
  }
  return *state_->programs.emplace_back(std::make_unique<LoadedProgram>(std::move(loaded)));
}

void Runtime::initialize(const LoadedProgram& program, uint64_t seed) {
  state_->throw_when_stopped();
  std::vector<const TaskVariable*> unset;
  for (const TaskVariable& variable : program.graph().variables)
    if (!state_->variables.is_set(variable.name)) unset.push_back(&variable);
  state_->fetch_variables();
  state_->crew.run([&](int index) {
    for (const TaskVariable* variable : unset) state_->variables.draw(*variable, seed, index);
  });
  state_->store_variables();
  for (const TaskVariable* variable : unset) state_->variables.mark_set(variable->name);
}

void Runtime::run(LoadedProgram& program, const std::map<std::string, const Tensor*>& inputs, TensorMap& results,
                  const Observer* observer) {
  state_->throw_when_stopped();
  LoadedProgram::State& loaded = program.state();
  const TaskGraph& graph = *loaded.program.graph;
  for (size_t i = 0; i < graph.inputs.size(); ++i) loaded.inputs[i] = find_input(graph.inputs[i], inputs);
  for (size_t i = 0; i < graph.results.size(); ++i) {
    const auto& [name, reg] = graph.results[i];
    loaded.results[i] = find_result(graph.registers[static_cast<size_t>(reg)].type, name, results);
  }
  // The job captures one pointer, which std::function keeps inside itself: a step allocates nothing.
  struct Step {
    BoundProgram* program;
    StepCall call;
  } step{&loaded.program, {loaded.inputs, loaded.results, observer}};
  state_->crew.run([&step](int index) { step.program->ranks[static_cast<size_t>(index)]->run(step.call); });
  state_->throw_when_stopped();
}

void Runtime::start_trace(size_t events) {
  state_->recorders.clear();
  for (int rank = 0; rank < ranks(); ++rank) state_->recorders.emplace_back(events);
  for (const auto& program : state_->programs) state_->set_recorders(program->state().program);
  state_->trace_start = Recorder::now();
}

Timeline Runtime::stop_trace() {
  ensure(!state_->recorders.empty(), "a trace is started before it is stopped");
  Timeline timeline = timeline_of(state_->recorders, state_->processes, state_->trace_start);
  state_->recorders.clear();
  for (const auto& program : state_->programs) state_->set_recorders(program->state().program);
  return timeline;
}

bool Runtime::drained(LoadedProgram& program) {
  state_->throw_when_stopped();
  std::atomic<bool> all{true};
  state_->crew.run([&](int index) {
    if (!program.state().program.ranks[static_cast<size_t>(index)]->drained()) all = false;
  });
  return all;
}

bool Runtime::failed() const {
  return state_->stop.stopped();
}

Tensor Runtime::variable(const std::string& name) const {
  state_->throw_when_stopped();
  state_->fetch_variables();
  return state_->variables.whole(name);
}

void Runtime::set_variable(const std::string& name, const Tensor& value) {
  state_->throw_when_stopped();
  state_->fetch_variables();
  state_->variables.set(name, value);
  state_->store_variables();
}

std::vector<std::string> Runtime::variable_names() const {
  return state_->variables.names();
}

void Runtime::on_every_rank(const std::function<void(Rank, std::span<const VariablePart>)>& work) {
  state_->throw_when_stopped();
  state_->fetch_variables();
  state_->crew.run([&](int index) { work(state_->processes[static_cast<size_t>(index)], state_->variables.parts_of(index)); });
  state_->store_variables();
}

void Runtime::mark_set(const std::string& name) {
  state_->variables.mark_set(name);
}

int Runtime::ranks() const {
  return static_cast<int>(state_->processes.size());
}

Bytes Runtime::peak_bytes() const {
  Bytes most{0};
  for (int index = 0; index < ranks(); ++index) {
    Bytes sum = state_->variables.bytes_of(index);
    if (const auto& device = state_->devices; index < static_cast<int>(device.size()) && device[static_cast<size_t>(index)])
      sum += device[static_cast<size_t>(index)]->variable_bytes();
    for (const auto& program : state_->programs) sum += program->state().program.ranks[static_cast<size_t>(index)]->arena_bytes();
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace tessera
