#include "runtime/runtime/runtime.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>
#include <thread>

#include "base/error.h"
#include "base/machine_memory.h"
#include "runtime/comm/network.h"
#include "runtime/comm/on_all_processes.h"
#include "runtime/executor/bound_program.h"
#include "runtime/executor/record/trace_part.h"
#include "runtime/runtime/internal/given_tensors.h"
#include "runtime/runtime/internal/in_flight_steps.h"
#include "runtime/runtime/internal/memory_need.h"
#include "runtime/runtime/internal/rank_division.h"
#include "runtime/runtime/internal/shared_results.h"
#include "runtime/runtime/internal/thread_pool.h"
#include "task_graph/actors/run_check.h"

namespace tessera {
namespace {

SpinPolicy spin_policy_for(int ranks) {
  constexpr SpinPolicy kOwnCore{.spins = 1000, .yields = 50}, kSharedCore{.spins = 0, .yields = 4};
  return static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency() ? kOwnCore
                                                                             : kSharedCore;
}

std::vector<Rank> ascending(std::vector<Rank> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

struct LoadedProgram::State {
  std::unique_ptr<BoundProgram> program;
  std::vector<GivenTensors> given;  // of the steps in flight, in turn
  size_t next_given = 0;
  std::unique_ptr<SharedResults> shared = nullptr;
  bool variables_are_set = false;  // as far as it is known: they stay set
};

LoadedProgram::LoadedProgram(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedProgram::~LoadedProgram() = default;
const TaskGraph& LoadedProgram::graph() const {
  return state_->program->graph();
}

struct Runtime::State {
  std::vector<Rank> ranks;
  RuntimeOptions options;
  ProcessNetwork* network;
  std::vector<int> process_of;  // by rank index
  std::vector<int> here;        // rank indices
  std::vector<Rank> here_ranks;
  StopState own_stop;
  StopState& stop;  // the network's, if there is one
  VariableStore variables;
  RankDevices devices;
  std::vector<RankArenas> arenas;  // by rank index
  std::vector<std::unique_ptr<LoadedProgram>> programs;
  int next_number = 0;  // of programs and regions, when there is no network
  GatheredBytes gathered;
  std::vector<Recorder> recorders;  // by rank index; empty: nothing is recorded
  Recorder::Time trace_start;
  InFlightSteps steps;
  ThreadPool threads;  // last: its threads end before the members that they use

  State(std::vector<Rank> all, RuntimeOptions runtime_options)
      : ranks(std::move(all)),
        options(std::move(runtime_options)),
        network(options.network.get()),
        process_of(processes_of(count(), network)),
        here(indices_here()),
        stop(network ? network->stop() : own_stop),
        variables(ranks, flags_here(), options.file_device),
        devices(count()),
        arenas(count()),
        steps(threads, here, stop, network, options.deadline),
        threads(static_cast<int>(here.size())) {
    for (int index : here) here_ranks.push_back(ranks[index]);
  }

  int count() const { return static_cast<int>(ranks.size()); }
  int process() const { return network ? network->process() : 0; }
  std::vector<int> indices_here() const {
    std::vector<int> indices;
    for (size_t i = 0; i < process_of.size(); ++i)
      if (process_of[i] == process()) indices.push_back(static_cast<int>(i));
    return indices;
  }
  std::vector<bool> flags_here() const {
    std::vector<bool> flags;
    for (int of : process_of) flags.push_back(of == process());
    return flags;
  }

  MemoryNeed memory_need(const TaskGraph& graph) const {
    MemoryNeed need{static_cast<int>(here.size()), variables.bytes_to_add(graph), Bytes(0)};
    for (const int index : here) need.arenas += arenas[index].bytes_to_add(graph, ranks[index]);
    return need;
  }

  /// Runs job(rank index) on the threads of the local ranks.  requires  they are idle
  template <typename Job>
  void run_here(const Job& job) {
    threads.run([this, &job](int thread) { job(here[thread]); });
  }

  /// Fails in all processes when `work` fails in one.
  template <typename Work>
  void on_all_processes(const Work& work) {
    if (!network) return work();
    tessera::on_all_processes(*network, here_ranks.front(), options.deadline, gathered, work);
  }

  /// Starts or ends recording on all local ranks of `program`.
  void set_recorders(BoundProgram& program) {
    for (int index : here)
      program.record_into(index, recorders.empty() ? nullptr : &recorders[index]);
  }

  /// Makes a device for each local rank that is in a mesh of devices of the program, and streams
  /// for each that has offloaded variables.
  void make_devices(const TaskGraph& graph) {
    for (MeshIndex mesh : graph.meshes.indices())
      for (int index : here) {
        const DeviceKind kind = device_of(graph, mesh);
        if (kind == DeviceKind::kHost || !graph.meshes[mesh]->coordinate_of(ranks[index])) continue;
        if (kind == DeviceKind::kFile)
          devices.make_file_streams(index, variables.file());
        else if (!devices.find(index))
          devices.add(index, make_fake_device(options.fake_device));
      }
  }

  /// Refuses a program that would compute with variables that have no values.
  void check_variables(LoadedProgram::State& loaded) const {
    if (loaded.variables_are_set) return;
    const std::vector<TaskVariable>& all = loaded.program->graph().variables;
    const auto unset = std::ranges::find_if(
        all, [&](const TaskVariable& variable) { return !variables.is_set(variable.name); });
    if (unset != all.end())
      throw UserError("variable '" + unset->name + "' has no initial value",
                      "a program computes with its variables from the first step on",
                      "call Runtime::initialize(program, seed) or set_variable() before the first "
                      "step",
                      ExitCode::kUsage);
    loaded.variables_are_set = true;
  }

  void throw_when_stopped() { steps.throw_when_stopped(); }
  /// Waits for all ranks. The next call throws a failure.
  void wait_for_ranks() {
    try {
      steps.wait_until_idle();
    } catch (...) {
      ensure(stop.stopped(), "what ends steps is kept");
    }
  }

  std::unique_ptr<BoundProgram> new_program(std::shared_ptr<const TaskGraph> graph) {
    const ProgramSetting setting{.ranks = ranks,
                                 .process_of = process_of,
                                 .options = options,
                                 .stop = &stop,
                                 .variables = &variables,
                                 .devices = &devices,
                                 .arenas = &arenas,
                                 .spin_policy = spin_policy_for(static_cast<int>(here.size())),
                                 .network = network};
    const auto new_number = [this] {
      return network ? network->programs().new_program() : next_number++;
    };
    return std::make_unique<BoundProgram>(std::move(graph), setting, new_number);
  }

  /// Each rank makes its part on its own thread; all parts are made before the first is bound.
  void make_ranks(BoundProgram& program) {
    run_here([&program](int index) { program.make_rank(index); });
    run_here([&program](int index) { program.bind_rank(index); });
    if (network) program.open();
  }

  /// The hashes of all processes, by rank index.
  std::vector<std::vector<uint64_t>> hashes() {
    std::vector<std::vector<uint64_t>> all(ranks.size());
    run_here([&](int index) { all[index] = variables.hashes(index); });
    if (!network) return all;
    std::vector<uint64_t> mine;
    for (int index : here) mine.insert(mine.end(), all[index].begin(), all[index].end());
    network->host().all_gather(std::as_bytes(std::span(mine)), gathered, options.deadline);
    std::vector<size_t> begins(network->size(), 0);
    const size_t count = variables.names().size();
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].resize(count);
      size_t& begin = begins[process_of[i]];
      std::memcpy(all[i].data(), gathered.at(process_of[i]).data() + begin,
                  count * sizeof(uint64_t));
      begin += count * sizeof(uint64_t);
    }
    return all;
  }

  /// The part of the trace of the local ranks.
  TracePart trace_part() const {
    std::vector<const Recorder*> written;
    for (int index : here) written.push_back(&recorders[index]);
    return trace_part_of(written, here_ranks, trace_start);
  }

  /// The timeline of all processes in process 0; an empty one in the others.
  Timeline join_traces(std::span<const std::byte> mine) {
    constexpr int kQuestions = 50;
    std::vector<Seconds> ahead(network->size(), Seconds(0));
    for (int other = 1; network->process() == 0 && other < network->size(); ++other) {
      const ClockReading clock = network->clocks().compare(other, kQuestions, options.deadline);
      // The processes of one machine have one clock: a difference below the error counts as none.
      if (std::abs(clock.ahead.value()) > clock.error.value()) ahead[other] = clock.ahead;
    }
    network->host().gather(mine, gathered, options.deadline);
    if (network->process() != 0) return {};
    std::vector<TracePart> parts;
    for (int other = 0; other < network->size(); ++other)
      parts.push_back(trace_part_from(gathered.at(other)));
    return joined(std::move(parts), ahead);
  }

  /// A whole variable, from the parts of all processes.
  Tensor variable(const std::string& name) {
    VariableStore::Parts parts = variables.parts_here(name);
    if (!network) return variables.whole(name, parts);
    std::vector<std::byte> mine;
    for (const auto& part : parts) mine.insert(mine.end(), part.begin(), part.end());
    network->host().all_gather(mine, gathered, options.deadline);
    std::vector<size_t> begins(network->size(), 0);
    for (size_t i = 0; i < parts.size(); ++i) {
      size_t& begin = begins[process_of[i]];
      const size_t size = variables.part_bytes(name, static_cast<int>(i)).value();
      parts[i] = gathered.at(process_of[i]).subspan(begin, size);
      begin += size;
    }
    return variables.whole(name, parts);
  }
};

Runtime::Runtime(std::vector<Rank> ranks, RuntimeOptions options) {
  ensure(std::is_sorted(ranks.begin(), ranks.end()), "ranks are given in ascending order");
  check_rank_count(ranks);
  state_ = std::make_unique<State>(std::move(ranks), options);
}
Runtime::Runtime(const MeshPtr& mesh, RuntimeOptions options)
    : Runtime(ascending(mesh->ranks()), options) {}
Runtime::~Runtime() = default;

LoadedProgram& Runtime::load(std::shared_ptr<const TaskGraph> graph) {
  state_->steps.wait_until_idle();
  check(*graph);
  check_run(*graph, state_->ranks);
  const std::vector<Rank> needed = tessera::ranks(*graph);
  ensure(std::includes(state_->ranks.begin(), state_->ranks.end(), needed.begin(), needed.end()),
         "a program runs on ranks of its runtime");
  auto loaded = std::make_unique<LoadedProgram::State>();
  loaded->given.assign(kMaxStepsInFlight, GivenTensors(*graph));
  loaded->program = state_->new_program(std::move(graph));
  state_->on_all_processes([&] {
    const MemoryNeed need = state_->memory_need(loaded->program->graph());
    if (need.all() > machine_memory()) refuse_memory(need);
    try {
      state_->variables.add(loaded->program->graph());
      state_->make_devices(loaded->program->graph());
      state_->make_ranks(*loaded->program);
      state_->set_recorders(*loaded->program);
    } catch (const std::bad_alloc&) {
      refuse_memory(need);
    }
  });
  // No process has failed, so all of them reach this point.
  if (state_->network) {
    for (int index : state_->here) loaded->program->rank(index).join_groups();
    loaded->shared = std::make_unique<SharedResults>(loaded->program->graph(), state_->ranks,
                                                     state_->process_of, *state_->network);
  }
  return *state_->programs.emplace_back(std::make_unique<LoadedProgram>(std::move(loaded)));
}

void Runtime::initialize(const LoadedProgram& program, uint64_t seed) {
  state_->steps.wait_until_idle();
  std::vector<const TaskVariable*> unset;
  for (const TaskVariable& variable : program.graph().variables)
    if (!state_->variables.is_set(variable.name)) unset.push_back(&variable);
  state_->devices.fetch_variables();
  state_->run_here([&](int index) {
    for (const TaskVariable* variable : unset) state_->variables.initialize(*variable, seed, index);
  });
  state_->devices.store_variables();
  for (const TaskVariable* variable : unset) state_->variables.mark_set(variable->name);
}

void Runtime::run(LoadedProgram& program, const std::map<std::string, const Tensor*>& inputs,
                  TensorMap& results, const Observer* observer) {
  ensure(steps_in_flight() == 0, "run() requires that no step is in flight");
  begin_step(program, inputs, results, observer);
  end_step();
}

void Runtime::begin_step(LoadedProgram& program, const std::map<std::string, const Tensor*>& inputs,
                         TensorMap& results, const Observer* observer) {
  state_->throw_when_stopped();
  ensure(steps_in_flight() < kMaxStepsInFlight, "at most two steps are in flight");
  LoadedProgram::State& loaded = program.state();
  GivenTensors& given = loaded.given[loaded.next_given];
  given.find(loaded.program->graph(), inputs, results);
  state_->check_variables(loaded);
  state_->steps.begin({loaded.program.get(), loaded.shared.get()},
                      {given.inputs, given.results, observer});
  loaded.next_given = (loaded.next_given + 1) % loaded.given.size();
}

Seconds Runtime::end_step() {
  return state_->steps.end();
}

std::optional<RankTime> Runtime::mean_rank_time() const {
  for (int index : state_->here)
    if (state_->devices.find(index)) return std::nullopt;
  return state_->steps.mean_time();
}

int Runtime::steps_in_flight() const {
  return static_cast<int>(state_->steps.count());
}

void Runtime::start_trace(size_t events) {
  state_->steps.wait_until_idle();
  state_->recorders.clear();
  for (int of : state_->process_of)
    state_->recorders.emplace_back(of == state_->process() ? events : 0);
  for (const auto& program : state_->programs) state_->set_recorders(*program->state().program);
  state_->trace_start = Recorder::now();
}

Timeline Runtime::stop_trace() {
  ensure(!state_->recorders.empty(), "a trace is started before it is stopped");
  state_->wait_for_ranks();
  TracePart mine = state_->trace_part();
  state_->recorders.clear();
  for (const auto& program : state_->programs) state_->set_recorders(*program->state().program);
  if (!state_->network || state_->stop.stopped()) return joined({std::move(mine)}, {Seconds(0)});
  const std::vector<std::byte> told = to_bytes(mine);
  try {
    return state_->join_traces(told);
  } catch (...) {
    if (!state_->stop.stopped()) throw;
    // The calls that run the program report the failure.
    return joined({std::move(mine)}, {Seconds(0)});
  }
}

bool Runtime::is_quiescent(LoadedProgram& program) {
  state_->steps.wait_until_idle();
  std::atomic<bool> all{true};
  state_->run_here([&](int index) {
    if (!program.state().program->rank(index).is_quiescent()) all = false;
  });
  return all;
}

bool Runtime::failed() const {
  return state_->stop.stopped();
}

Tensor Runtime::variable(const std::string& name) const {
  state_->steps.wait_until_idle();
  state_->devices.fetch_variables();
  return state_->variable(name);
}

void Runtime::set_variable(const std::string& name, const Tensor& value) {
  state_->steps.wait_until_idle();
  state_->devices.fetch_variables();
  state_->variables.set(name, value);
  state_->devices.store_variables();
}

std::vector<std::string> Runtime::variable_names() const {
  return state_->variables.names();
}

void Runtime::on_every_rank(const std::function<void(Rank, std::span<const VariablePart>)>& work) {
  state_->steps.wait_until_idle();
  state_->on_all_processes([&] {
    state_->devices.fetch_variables();
    state_->run_here([&](int index) {
      state_->variables.with_parts_of(
          index, [&](std::span<const VariablePart> parts) { work(state_->ranks[index], parts); });
    });
    state_->devices.store_variables();
  });
}

void Runtime::check_replicas() {
  state_->steps.wait_until_idle();
  state_->devices.fetch_variables();
  const std::vector<std::vector<uint64_t>> hashes = state_->hashes();
  const auto mismatch = state_->variables.find_replica_mismatch(hashes);
  if (!mismatch) return;
  throw UserError(
      "the replicas of variable '" + mismatch->variable + "' differ",
      "rank " + std::to_string(mismatch->other) + " does not hold the bits that rank " +
          std::to_string(mismatch->first) + " holds, though both computed the same",
      "test the memory and the processors of their machines, and go on from a checkpoint before");
}

void Runtime::on_all_processes(const std::function<void()>& work) {
  state_->throw_when_stopped();
  state_->on_all_processes(work);
}

uint8_t Runtime::union_of(uint8_t mine) {
  if (!state_->network) return mine;
  const std::byte value{mine};
  std::byte all{0};
  all_gather({&value, 1}, [&](std::span<const std::byte> theirs) {
    ensure(theirs.size() == 1, "all processes make the same calls of the runtime");
    all |= theirs[0];
  });
  return std::to_integer<uint8_t>(all);
}

void Runtime::all_gather(std::span<const std::byte> mine,
                         const std::function<void(std::span<const std::byte>)>& take) {
  if (!state_->network) return take(mine);
  state_->throw_when_stopped();
  state_->network->host().all_gather(mine, state_->gathered, state_->options.deadline);
  for (int process = 0; process < state_->network->size(); ++process)
    take(state_->gathered.at(process));
}

void Runtime::gather(std::span<const std::byte> mine,
                     const std::function<void(std::span<const std::byte>)>& take) {
  if (!state_->network) return take(mine);
  state_->throw_when_stopped();
  state_->network->host().gather(mine, state_->gathered, state_->options.deadline);
  if (!is_leader()) return;
  for (int process = 0; process < state_->network->size(); ++process)
    take(state_->gathered.at(process));
}

bool Runtime::agree_on(uint64_t mine) {
  bool agree = true;
  all_gather(std::as_bytes(std::span(&mine, 1)), [&](std::span<const std::byte> theirs) {
    ensure(theirs.size() == sizeof mine, "all processes make the same calls of the runtime");
    agree = agree && std::memcmp(theirs.data(), &mine, sizeof mine) == 0;
  });
  return agree;
}

bool Runtime::is_leader() const {
  return state_->process() == 0;
}

const std::vector<Rank>& Runtime::local_ranks() const {
  return state_->here_ranks;
}

void Runtime::mark_set(const std::string& name) {
  state_->variables.mark_set(name);
}

int Runtime::ranks() const {
  return state_->count();
}

Bytes Runtime::peak_bytes() const {
  Bytes largest{0};
  for (int index : state_->here) {
    Bytes sum = state_->variables.bytes_of(index) + state_->arenas[index].size();
    if (const RankDevice* device = state_->devices.find(index)) sum += device->variable_bytes();
    for (const auto& program : state_->programs)
      sum += program->state().program->staging_bytes(index);
    largest = std::max(largest, sum);
  }
  if (state_->network) largest += state_->network->fetch().staging_bytes();
  return largest;
}

}  // namespace tessera
