#include "runtime/runtime.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>
#include <thread>

#include "actors/run_check.h"
#include "base/error.h"
#include "comm/network.h"
#include "comm/on_all_processes.h"
#include "executor/rank_program.h"
#include "executor/trace_part.h"
#include "runtime/crew.h"
#include "runtime/given_tensors.h"
#include "runtime/shared_results.h"
#include "runtime/steps_under_way.h"

namespace tessera {
namespace {

SpinPolicy spin_policy_for(int ranks) {
  constexpr SpinPolicy kOwnCore{.spins = 1000, .yields = 50}, kSharedCore{.spins = 0, .yields = 4};
  return static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency() ? kOwnCore
                                                                             : kSharedCore;
}

/// Each is a thread with a memory of its own, and every one meets every other: more of them are a
/// mistake in a plan.
constexpr size_t kMostRanks = 1024;

void check_count(const std::vector<Rank>& ranks) {
  if (ranks.size() <= kMostRanks) return;
  throw UserError(std::to_string(ranks.size()) + " ranks do not run in one process",
                  "each is a thread with its own memory, and a process starts at most " +
                      std::to_string(kMostRanks),
                  "use a plan with smaller meshes, or start a process a rank with mpirun",
                  ExitCode::kBadConfig);
}

std::vector<Rank> ascending(std::vector<Rank> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// By rank index: the member that each rank is on, in blocks.
std::vector<int> members_of(size_t ranks, const Network* network) {
  std::vector<int> members(ranks, 0);
  if (!network) return members;
  ensure(static_cast<int>(ranks) >= network->size(), "every member has a rank");
  for (int member = 0; member < network->size(); ++member) {
    const Range block = balanced_part(static_cast<int64_t>(ranks), network->size(), member);
    std::fill(members.begin() + block.begin, members.begin() + block.end, member);
  }
  return members;
}

}  // namespace

struct LoadedProgram::State {
  BoundProgram program;
  std::vector<GivenTensors> given;  // to the steps under way: in turn
  size_t next_given = 0;
  std::unique_ptr<SharedResults> shared = nullptr;
};

LoadedProgram::LoadedProgram(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedProgram::~LoadedProgram() = default;
const TaskGraph& LoadedProgram::graph() const {
  return *state_->program.graph;
}

struct Runtime::State {
  std::vector<Rank> processes;
  RuntimeOptions options;
  Network* network;
  std::vector<int> members;  // by rank index
  std::vector<int> here;     // rank indices
  std::vector<Rank> here_ranks;
  StopState own_stop;
  StopState& stop;  // of several members the network's
  VariableStore variables;
  std::vector<std::unique_ptr<RankDevice>>
      devices;  // by rank index; nullptr where no program needs one
  std::vector<std::unique_ptr<LoadedProgram>> programs;
  GatheredBytes gathered;
  std::vector<Recorder> recorders;  // by rank index; none: nothing is written down
  Recorder::Time trace_start;
  StepsUnderWay steps;
  Crew crew;  // last: its threads end before what they use

  State(std::vector<Rank> all, RuntimeOptions runtime_options)
      : processes(std::move(all)),
        options(std::move(runtime_options)),
        network(options.network.get()),
        members(members_of(processes.size(), network)),
        here(indices_here()),
        stop(network ? network->stop() : own_stop),
        variables(processes, flags_here()),
        steps(crew, here, stop, network, options.deadline),
        crew(static_cast<int>(here.size())) {
    for (int index : here) here_ranks.push_back(processes[index]);
  }

  int member() const { return network ? network->process() : 0; }
  std::vector<int> indices_here() const {
    std::vector<int> indices;
    for (size_t i = 0; i < members.size(); ++i)
      if (members[i] == member()) indices.push_back(static_cast<int>(i));
    return indices;
  }
  std::vector<bool> flags_here() const {
    std::vector<bool> flags;
    for (int of : members) flags.push_back(of == member());
    return flags;
  }

  /// job(rank index), on the threads of the ranks that are here.  requires  they rest
  template <typename Job>
  void run_here(const Job& job) {
    crew.run([this, &job](int thread) { job(here[thread]); });
  }

  /// What fails on one member fails on all.
  template <typename Work>
  void together(const Work& work) {
    if (!network) return work();
    on_all_processes(*network, here_ranks.front(), options.deadline, gathered, work);
  }

  /// Whoever runs `program` from now on writes down what it does, or no longer does.
  void set_recorders(const BoundProgram& program) {
    for (int index : here)
      program.ranks[index]->record_into(recorders.empty() ? nullptr : &recorders[index]);
  }

  /// A rank gets a device when a program has a mesh of devices that it is in.
  void make_devices(const TaskGraph& graph) {
    devices.resize(processes.size());
    for (MeshIndex mesh : graph.meshes.indices())
      for (size_t i = 0; i < here.size(); ++i)
        if (auto& device = devices[here[i]]; !device &&
                                             device_of(graph, mesh) == DeviceKind::kFake &&
                                             graph.meshes[mesh]->coordinate_of(here_ranks[i]))
          device = std::make_unique<RankDevice>(make_fake_device(options.fake_device));
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

  void throw_when_stopped() { steps.throw_when_stopped(); }
  /// A failure is thrown by the next call.
  void let_ranks_rest() {
    try {
      steps.rest();
    } catch (...) {
      ensure(stop.stopped(), "what ends steps is kept");
    }
  }

  /// The programs of the regions, as the ranks will find them.
  void add_regions(BoundProgram& program) {
    program.ranks.resize(processes.size());
    program.actors = std::make_unique<TaskActors>(program.graph, program.processes);
    for (const Task& task : program.graph->tasks)
      for (const KernelStep& step : task.steps) {
        if (!step.control) continue;
        auto& bound = program.regions[step.control.get()];
        ensure(bound.empty(), "regions belong to one step");
        for (const TaskGraph& region : step.control->regions) {
          const std::shared_ptr<const TaskGraph> graph(program.graph, &region);
          bound.push_back(std::make_unique<BoundProgram>(new_program(graph)));
          bound.back()->is_region = true;
          add_regions(*bound.back());
        }
      }
    if (network) program.open = std::make_unique<OpenProgram>(program);
  }

  BoundProgram new_program(std::shared_ptr<const TaskGraph> graph) {
    BoundProgram program;
    program.graph = std::move(graph);
    program.processes = processes;
    program.options = options;
    program.stop = &stop;
    program.variables = &variables;
    program.devices = &devices;
    program.spin_policy = spin_policy_for(static_cast<int>(here.size()));
    program.network = network;
    program.members = members;
    return program;
  }

  /// The ranks each make their part, with a barrier after every stage of which the next reads what
  /// others made.
  void make_ranks(BoundProgram& program) {
    add_regions(program);
    run_here([&program](int index) {
      auto& rank = program.ranks[index];
      rank = std::make_unique<RankProgram>(program, index);
      rank->find_pulls();
    });
    run_here([&program](int index) { program.ranks[index]->bind(); });
    if (network) open_to_members(program);
  }

  void open_to_members(BoundProgram& program) {
    int answers = 0;
    Bytes largest{0};
    for (int index : here) {
      const auto [receivers, bytes] = program.ranks[index]->packing();
      answers += receivers;
      largest = std::max(largest, bytes);
    }
    network->fetch().reserve_staging(answers, largest);
    program.open->open();
    for (const auto& [control, regions] : program.regions)
      for (const auto& region : regions) open_to_members(*region);
  }

  /// By rank index, of all members.
  std::vector<std::vector<uint64_t>> hashes() {
    std::vector<std::vector<uint64_t>> all(processes.size());
    run_here([&](int index) { all[index] = variables.hashes(index); });
    if (!network) return all;
    std::vector<uint64_t> mine;
    for (int index : here) mine.insert(mine.end(), all[index].begin(), all[index].end());
    network->host().all_gather(std::as_bytes(std::span(mine)), gathered, options.deadline);
    std::vector<size_t> begins(static_cast<size_t>(network->size()), 0);
    const size_t count = variables.names().size();
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].resize(count);
      size_t& begin = begins[members[i]];
      std::memcpy(all[i].data(), gathered.of(members[i]).data() + begin, count * sizeof(uint64_t));
      begin += count * sizeof(uint64_t);
    }
    return all;
  }

  /// Of the ranks that are here.
  TracePart trace_part() const {
    std::vector<const Recorder*> written;
    for (int index : here) written.push_back(&recorders[index]);
    return trace_part_of(written, here_ranks, trace_start);
  }

  /// On the first member what all give; on the others nothing.
  Timeline join_traces(std::span<const std::byte> mine) {
    constexpr int kQuestions = 50;
    std::vector<Seconds> ahead(static_cast<size_t>(network->size()), Seconds(0));
    for (int member = 1; network->process() == 0 && member < network->size(); ++member) {
      const ClockReading clock = network->clocks().compare(member, kQuestions, options.deadline);
      // Less than the error is most likely nothing: the members of one machine have one clock.
      if (std::abs(clock.ahead.value()) > clock.error.value()) ahead[member] = clock.ahead;
    }
    network->host().gather(mine, gathered, options.deadline);
    if (network->process() != 0) return {};
    std::vector<TracePart> parts;
    for (int member = 0; member < network->size(); ++member)
      parts.push_back(trace_part_from(gathered.of(member)));
    return joined(std::move(parts), ahead);
  }

  /// A variable with the parts of all members.
  Tensor variable(const std::string& name) {
    VariableStore::Parts parts = variables.parts_here(name);
    if (!network) return variables.whole(name, parts);
    std::vector<std::byte> mine;
    for (const auto& part : parts) mine.insert(mine.end(), part.begin(), part.end());
    network->host().all_gather(mine, gathered, options.deadline);
    std::vector<size_t> begins(static_cast<size_t>(network->size()), 0);
    for (size_t i = 0; i < parts.size(); ++i) {
      size_t& begin = begins[members[i]];
      const auto size =
          static_cast<size_t>(variables.part_bytes(name, static_cast<int>(i)).value());
      parts[i] = gathered.of(members[i]).subspan(begin, size);
      begin += size;
    }
    return variables.whole(name, parts);
  }
};

Runtime::Runtime(std::vector<Rank> processes, RuntimeOptions options) {
  ensure(std::is_sorted(processes.begin(), processes.end()),
         "processes are given in ascending order");
  check_count(processes);
  state_ = std::make_unique<State>(std::move(processes), options);
}
Runtime::Runtime(const MeshPtr& mesh, RuntimeOptions options)
    : Runtime(ascending(mesh->ranks()), options) {}
Runtime::~Runtime() = default;

LoadedProgram& Runtime::load(std::shared_ptr<const TaskGraph> graph) {
  state_->steps.rest();
  check(*graph);
  check_run(*graph, state_->processes);
  const std::vector<Rank> needed = tessera::ranks(*graph);
  ensure(std::includes(state_->processes.begin(), state_->processes.end(), needed.begin(),
                       needed.end()),
         "a program runs on processes of its runtime");
  const Bytes arena = *std::max_element(graph->arenas.begin(), graph->arenas.end());
  auto loaded = std::make_unique<LoadedProgram::State>();
  loaded->given.assign(kStepsUnderWay, GivenTensors(*graph));
  loaded->program = state_->new_program(std::move(graph));
  state_->together([&] {
    try {
      state_->variables.add(*loaded->program.graph);
      state_->make_devices(*loaded->program.graph);
      state_->make_ranks(loaded->program);
      state_->set_recorders(loaded->program);
    } catch (const std::bad_alloc&) {
      throw UserError("the program does not fit into the memory of this machine",
                      "each of " + std::to_string(ranks()) + " ranks holds up to " +
                          to_text(arena) + " of activations besides its variables",
                      "use a smaller batch, a plan that divides more, or more machines",
                      ExitCode::kOutOfMemory);
    }
  });
  // Behind the agreement: whoever comes here, all others do.
  if (state_->network) {
    for (int index : state_->here) loaded->program.ranks[index]->join_groups();
    loaded->shared = std::make_unique<SharedResults>(*loaded->program.graph, state_->processes,
                                                     state_->members, *state_->network);
  }
  return *state_->programs.emplace_back(std::make_unique<LoadedProgram>(std::move(loaded)));
}

void Runtime::initialize(const LoadedProgram& program, uint64_t seed) {
  state_->steps.rest();
  std::vector<const TaskVariable*> unset;
  for (const TaskVariable& variable : program.graph().variables)
    if (!state_->variables.is_set(variable.name)) unset.push_back(&variable);
  state_->fetch_variables();
  state_->run_here([&](int index) {
    for (const TaskVariable* variable : unset) state_->variables.draw(*variable, seed, index);
  });
  state_->store_variables();
  for (const TaskVariable* variable : unset) state_->variables.mark_set(variable->name);
}

void Runtime::run(LoadedProgram& program, const std::map<std::string, const Tensor*>& inputs,
                  TensorMap& results, const Observer* observer) {
  ensure(steps_under_way() == 0, "a step is run when no other is under way");
  begin_step(program, inputs, results, observer);
  end_step();
}

void Runtime::begin_step(LoadedProgram& program, const std::map<std::string, const Tensor*>& inputs,
                         TensorMap& results, const Observer* observer) {
  state_->throw_when_stopped();
  ensure(steps_under_way() < kStepsUnderWay,
         "a step is begun when there is room for one more under way");
  LoadedProgram::State& loaded = program.state();
  GivenTensors& given = loaded.given[loaded.next_given];
  given.find(*loaded.program.graph, inputs, results);
  state_->steps.begin({&loaded.program, loaded.shared.get()},
                      {given.inputs, given.results, observer});
  loaded.next_given = (loaded.next_given + 1) % loaded.given.size();
}

Seconds Runtime::end_step() {
  return state_->steps.end();
}

int Runtime::steps_under_way() const {
  return static_cast<int>(state_->steps.count());
}

void Runtime::start_trace(size_t events) {
  state_->steps.rest();
  state_->recorders.clear();
  for (int of : state_->members)
    state_->recorders.emplace_back(of == state_->member() ? events : 0);
  for (const auto& program : state_->programs) state_->set_recorders(program->state().program);
  state_->trace_start = Recorder::now();
}

Timeline Runtime::stop_trace() {
  ensure(!state_->recorders.empty(), "a trace is started before it is stopped");
  state_->let_ranks_rest();
  TracePart mine = state_->trace_part();
  state_->recorders.clear();
  for (const auto& program : state_->programs) state_->set_recorders(program->state().program);
  if (!state_->network || state_->stop.stopped()) return joined({std::move(mine)}, {Seconds(0)});
  const std::vector<std::byte> told = to_bytes(mine);
  try {
    return state_->join_traces(told);
  } catch (...) {
    if (!state_->stop.stopped()) throw;
    return joined({std::move(mine)},
                  {Seconds(0)});  // the failure is for those to tell who run the program
  }
}

bool Runtime::drained(LoadedProgram& program) {
  state_->steps.rest();
  std::atomic<bool> all{true};
  state_->run_here([&](int index) {
    if (!program.state().program.ranks[index]->drained()) all = false;
  });
  return all;
}

bool Runtime::failed() const {
  return state_->stop.stopped();
}

Tensor Runtime::variable(const std::string& name) const {
  state_->steps.rest();
  state_->fetch_variables();
  return state_->variable(name);
}

void Runtime::set_variable(const std::string& name, const Tensor& value) {
  state_->steps.rest();
  state_->fetch_variables();
  state_->variables.set(name, value);
  state_->store_variables();
}

std::vector<std::string> Runtime::variable_names() const {
  return state_->variables.names();
}

void Runtime::on_every_rank(const std::function<void(Rank, std::span<const VariablePart>)>& work) {
  state_->steps.rest();
  state_->together([&] {
    state_->fetch_variables();
    state_->run_here(
        [&](int index) { work(state_->processes[index], state_->variables.parts_of(index)); });
    state_->store_variables();
  });
}

void Runtime::check_replicas() {
  state_->steps.rest();
  state_->fetch_variables();
  const std::vector<std::vector<uint64_t>> hashes = state_->hashes();
  const auto torn = state_->variables.find_torn(hashes);
  if (!torn) return;
  throw UserError(
      "the replicas of variable '" + torn->variable + "' differ",
      "rank " + std::to_string(torn->other) + " does not hold the bits that rank " +
          std::to_string(torn->first) + " holds, though both computed the same",
      "test the memory and the processors of their machines, and go on from a checkpoint before");
}

void Runtime::together(const std::function<void()>& work) {
  state_->throw_when_stopped();
  state_->together(work);
}

bool Runtime::any(bool mine) {
  if (!state_->network) return mine;
  state_->throw_when_stopped();
  const auto said = static_cast<std::byte>(mine);
  state_->network->host().all_gather({&said, 1}, state_->gathered, state_->options.deadline);
  for (int member = 0; member < state_->network->size(); ++member)
    if (state_->gathered.of(member)[0] != std::byte{0}) return true;
  return false;
}

bool Runtime::speaks() const {
  return state_->member() == 0;
}

const std::vector<Rank>& Runtime::local_ranks() const {
  return state_->here_ranks;
}

void Runtime::mark_set(const std::string& name) {
  state_->variables.mark_set(name);
}

int Runtime::ranks() const {
  return static_cast<int>(state_->processes.size());
}

Bytes Runtime::peak_bytes() const {
  Bytes most{0};
  for (int index : state_->here) {
    Bytes sum = state_->variables.bytes_of(index);
    if (const auto& device = state_->devices;
        index < static_cast<int>(device.size()) && device[index])
      sum += device[index]->variable_bytes();
    for (const auto& program : state_->programs)
      sum += program->state().program.ranks[index]->arena_bytes();
    most = std::max(most, sum);
  }
  if (state_->network) most += state_->network->fetch().staging_bytes();
  return most;
}

}  // namespace tessera
