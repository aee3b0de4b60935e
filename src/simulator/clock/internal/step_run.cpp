#include "simulator/clock/internal/step_run.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace tessera {
namespace {

int64_t scaled(int64_t amount, double factor) {
  return factor == 1 ? amount : std::llround(static_cast<double>(amount) * factor);
}

/// Lists of classes, one after the other.
class ClassLists {
 public:
  void add(std::span<const int> rank_indices, const RankClasses& classes) {
    const size_t begin = items_.size();
    for (const int rank : rank_indices) {
      const int found = classes.class_of[rank];
      if (std::find(items_.begin() + begin, items_.end(), found) == items_.end())
        items_.push_back(found);
    }
    ends_.push_back(items_.size());
  }
  std::span<const int> at(size_t list) const {
    const size_t begin = list == 0 ? 0 : ends_[list - 1];
    return std::span(items_).subspan(begin, ends_[list] - begin);
  }

 private:
  std::vector<int> items_;
  std::vector<size_t> ends_;
};

/// From which classes the ranks of a class receive, and which receive from them.
class ClassLinks {
 public:
  ClassLinks(const ExchangeLinks& links, const RankClasses& classes) : classes_(classes.count()) {
    for (int exchange = 0; exchange < links.classes(); ++exchange)
      for (const int rank : classes.representatives) {
        senders_.add(links.senders(ExchangeClass(exchange), rank), classes);
        receivers_.add(links.receivers(ExchangeClass(exchange), rank), classes);
      }
  }
  std::span<const int> senders(ExchangeClass exchange, int rank_class) const {
    return senders_.at(static_cast<size_t>(exchange.value()) * classes_ + rank_class);
  }
  std::span<const int> receivers(ExchangeClass exchange, int rank_class) const {
    return receivers_.at(static_cast<size_t>(exchange.value()) * classes_ + rank_class);
  }

 private:
  const size_t classes_;
  ClassLists senders_, receivers_;
};

/// By register and consumer, the part of the exchange that reads it; -1 of other consumers.
class ReadParts {
 public:
  explicit ReadParts(const TaskGraph& graph) {
    int count = 0;
    for (const Register& reg : graph.registers) {
      first_.push_back(count);
      count += static_cast<int>(reg.consumers.size());
    }
    parts_.assign(count, -1);
    for (const TaskId id : graph.tasks.indices()) {
      const Task& task = graph.tasks[id];
      if (task.kind != Task::Kind::kExchange) continue;
      for (int part = static_cast<int>(task.inputs.size()) - 1; part >= 0;
           --part) {  // the first one counts
        const RegisterIndex reg = task.inputs[part];
        const std::span<const TaskId> readers = graph.registers[reg].consumers;
        for (int i = 0; i < std::ssize(readers); ++i)
          if (readers[i] == id) parts_[first_[reg] + i] = part;
      }
    }
  }
  int at(RegisterIndex reg, int consumer) const { return parts_[first_[reg] + consumer]; }

 private:
  IndexedVector<RegisterIndex, int> first_;
  std::vector<int> parts_;
};

class Step {
 public:
  explicit Step(const StepRun& run)
      : run_(run),
        graph_(run.graph),
        links_(run.links, run.classes),
        parts_(run.graph),
        rates_(run.classes.resources),
        spans_(run.actors.count()),
        waits_(run.actors.count(), 0) {
    find_watched();
    for (int rank_class = 0; rank_class < run.classes.count(); ++rank_class) {
      count_hazards(rank_class);
      add_streams(rank_class);
    }
    for (int stream = 0; stream < std::ssize(streams_); ++stream) touch(stream);
  }

  std::vector<ActSpan> spans() {
    while (true) {
      begin_acts();
      if (events_.empty() || events_.top().time > now_) rates_.update(now_);
      const int64_t next =
          std::min(events_.empty() ? FairRates::kNever : events_.top().time, rates_.next_end());
      if (next == FairRates::kNever) break;
      now_ = next;
      handle_events();
    }
    const auto is_done = [](const Stream& stream) {
      return stream.next == stream.program->tasks.size();
    };
    if (!std::ranges::all_of(streams_, is_done)) return {};
    return std::move(spans_);
  }

 private:
  struct Stream {
    const ClassProgram::Stream* program = nullptr;
    int rank_class = 0;
    size_t next = 0;        // index in its tasks: the one that acts, or acts next
    size_t held = 0;        // of its overwrites, the first one to check
    int64_t in_flight = 0;  // flows of the act
    bool is_acting = false;
    bool is_touched = false;
    bool is_watching = false;  // the register that `held` names
  };
  /// The end of an act, or of its fixed time.
  struct Event {
    int64_t time = 0;
    int stream = 0;
    bool operator>(const Event& other) const {
      return std::tie(time, stream) > std::tie(other.time, other.stream);
    }
  };

  // ---- before the step ----

  /// Only of registers that are written over the readers are counted.
  void find_watched() {
    place_.assign(graph_.registers.size(), -1);
    IndexedVector<MeshIndex, int> counts(graph_.meshes.size(), 0);
    for (int rank_class = 0; rank_class < run_.classes.count(); ++rank_class)
      for (const ClassProgram::Stream& stream : run_.programs.at(rank_class).streams)
        for (const std::vector<RegisterIndex>& list : stream.overwrites)
          for (const RegisterIndex reg : list)
            if (place_[reg.value()] < 0) place_[reg.value()] = counts[producer_mesh(reg)]++;
    for (int rank_class = 0; rank_class < run_.classes.count(); ++rank_class) {
      auto& first = first_watched_.emplace_back(graph_.meshes.size(), -1);
      for (const MeshIndex mesh : graph_.meshes.indices()) {
        if (!run_.actors.is_in(rank_class, mesh)) continue;
        first[mesh] = static_cast<int>(readers_.size());
        readers_.resize(readers_.size() + counts[mesh], 0);
      }
    }
  }
  MeshIndex producer_mesh(RegisterIndex reg) const {
    return graph_.tasks[graph_.registers[reg].producer].mesh;
  }
  /// -1: nothing waits for its readers.
  int watched(int rank_class, RegisterIndex reg) const {
    return place_[reg.value()] < 0
               ? -1
               : first_watched_[rank_class][producer_mesh(reg)] + place_[reg.value()];
  }

  void count_hazards(int rank_class) {
    const ClassProgram& program = run_.programs.at(rank_class);
    for (const ClassProgram::Stream& stream : program.streams)
      for (const TaskId id : stream.tasks) {
        const Task& task = graph_.tasks[id];
        int& waits = waits_[actor(rank_class, id)];
        if (task.kind != Task::Kind::kExchange) {
          waits += static_cast<int>(task.inputs.size());
          continue;
        }
        for (size_t part = 0; part < task.parts.size(); ++part)
          waits +=
              static_cast<int>(links_.senders(run_.links.class_of(id, part), rank_class).size());
      }
    for (const auto& [from, to] : program.issue_edges) ++waits_[actor(rank_class, to)];
  }

  void add_streams(int rank_class) {
    const ClassProgram& program = run_.programs.at(rank_class);
    auto& numbers = stream_of_.emplace_back();
    for (size_t i = 0; i < program.streams.size(); ++i) {
      numbers[i] = static_cast<int>(streams_.size());
      if (!program.streams[i].tasks.empty())
        streams_.push_back({.program = &program.streams[i], .rank_class = rank_class});
    }
  }

  ActorId actor(int rank_class, TaskId task) const {
    return run_.actors.actor_id(rank_class, task);
  }
  int stream_of(int rank_class, TaskId task) const {
    return stream_of_[rank_class][static_cast<size_t>(run_.programs.stream_of_task(task))];
  }
  ActorId actor_of(const Stream& stream) const {
    return actor(stream.rank_class, stream.program->tasks[stream.next]);
  }

  // ---- what may act ----

  void touch(int stream) {
    if (!std::exchange(streams_[stream].is_touched, true)) touched_.push_back(stream);
  }

  void begin_acts() {
    std::vector<int> touched = std::exchange(touched_, {});
    std::ranges::sort(touched);
    for (const int index : touched) {
      Stream& stream = streams_[index];
      stream.is_touched = false;
      if (stream.is_acting || stream.next == stream.program->tasks.size()) continue;
      const ActorId id = actor_of(stream);
      if (waits_[id] > 0 || !may_overwrite(index)) continue;
      stream.is_acting = true;
      spans_[id].start = now_;
      const int64_t fixed = scaled(run_.demands[id]->fixed, run_.factors[stream.rank_class]);
      ensure(fixed >= 0, "an act takes no negative time");
      events_.push({now_ + fixed, index});
    }
  }

  /// The search begins where the last one failed.
  bool may_overwrite(int index) {
    Stream& stream = streams_[index];
    const std::vector<RegisterIndex>& list = stream.program->overwrites[stream.next];
    for (size_t i = 0; i < list.size(); ++i) {
      const RegisterIndex reg = list[stream.held];
      const int own = readers_[watched(stream.rank_class, reg)];
      if (own > 1 || (own == 1 && !reads_itself(stream, reg))) {
        if (!std::exchange(stream.is_watching, true))
          watchers_[watched(stream.rank_class, reg)].push_back(index);
        return false;
      }
      stream.held = stream.held + 1 == list.size() ? 0 : stream.held + 1;
    }
    return true;
  }
  /// Is the next task of the stream a reader of the register of its own class?
  bool reads_itself(const Stream& stream, RegisterIndex reg) const {
    const TaskId task = stream.program->tasks[stream.next];
    const std::span<const TaskId> readers = graph_.registers[reg].consumers;
    for (int i = 0; i < std::ssize(readers); ++i) {
      if (readers[i] != task) continue;
      const int part = parts_.at(reg, i);
      if (part < 0) return true;
      const auto senders = links_.senders(run_.links.class_of(task, part), stream.rank_class);
      return std::ranges::count(senders, stream.rank_class) > 0;
    }
    return false;
  }

  // ---- what happens at a time ----

  void handle_events() {
    while (!events_.empty() && events_.top().time == now_) {
      const int stream = events_.top().stream;
      events_.pop();
      begin_flows(stream);
    }
    for (const FlowId flow : rates_.end_flows(now_))
      if (const int stream = stream_of_flow_[flow]; --streams_[stream].in_flight == 0)
        end_act(stream);
  }

  void begin_flows(int index) {
    Stream& stream = streams_[index];
    for (const Flow& flow : run_.demands[actor_of(stream)]->flows) {
      const bool is_work = std::ranges::any_of(flow.uses, [&](const ResourceUse& use) {
        return run_.classes.resources[use.resource].kind == Resource::Kind::kCores;
      });
      const int64_t amount =
          is_work ? scaled(flow.amount, run_.factors[stream.rank_class]) : flow.amount;
      if (amount == 0) continue;
      const FlowId id = rates_.begin(flow, amount, now_);
      if (!stream_of_flow_.contains(id)) stream_of_flow_.resize(id.value() + 1);
      stream_of_flow_[id] = index;
      ++stream.in_flight;
    }
    if (stream.in_flight == 0) end_act(index);
  }

  void end_act(int index) {
    Stream& stream = streams_[index];
    const TaskId id = stream.program->tasks[stream.next];
    const int rank_class = stream.rank_class;
    spans_[actor_of(stream)].end = now_;
    stream.is_acting = false;
    stream.held = 0;
    ++stream.next;
    touch(index);
    const Task& task = graph_.tasks[id];
    for (const RegisterIndex reg : task.outputs) fill(rank_class, reg);
    if (task.kind == Task::Kind::kExchange) {
      for (size_t part = 0; part < task.parts.size(); ++part)
        for (const int sender : links_.senders(run_.links.class_of(id, part), rank_class))
          release(sender, task.inputs[part]);
    } else {
      for (const RegisterIndex reg : task.inputs) release(rank_class, reg);
    }
    const auto& edges = run_.programs.at(rank_class).issue_edges;
    for (auto edge = std::ranges::lower_bound(edges, std::pair(id, TaskId(0)));
         edge != edges.end() && edge->first == id; ++edge)
      arrive(rank_class, edge->second);
  }

  void fill(int rank_class, RegisterIndex reg) {
    const std::span<const TaskId> readers = graph_.registers[reg].consumers;
    int count = 0;
    for (int i = 0; i < std::ssize(readers); ++i) {
      const int part = parts_.at(reg, i);
      if (part < 0) {
        arrive(rank_class, readers[i]);
        ++count;
        continue;
      }
      for (const int receiver :
           links_.receivers(run_.links.class_of(readers[i], part), rank_class)) {
        arrive(receiver, readers[i]);
        ++count;
      }
    }
    if (const int place = watched(rank_class, reg); place >= 0) readers_[place] = count;
  }

  void arrive(int rank_class, TaskId task) {
    if (--waits_[actor(rank_class, task)] == 0) touch(stream_of(rank_class, task));
  }

  void release(int rank_class, RegisterIndex reg) {
    const int place = watched(rank_class, reg);
    if (place < 0) return;
    --readers_[place];
    const auto found = watchers_.find(place);
    if (found == watchers_.end()) return;
    for (const int stream : found->second) {
      streams_[stream].is_watching = false;
      touch(stream);
    }
    watchers_.erase(found);
  }

  const StepRun& run_;
  const TaskGraph& graph_;
  const ClassLinks links_;
  const ReadParts parts_;
  FairRates rates_;
  std::vector<ActSpan> spans_;  // by actor
  std::vector<int> waits_;      // by actor: registers and issue points that are not there yet
  std::vector<Stream> streams_;
  std::vector<std::array<int, kTaskStreams>> stream_of_;  // by class and stream
  std::vector<int> place_;  // by register: among those of its mesh that are written over; or -1
  std::vector<IndexedVector<MeshIndex, int>> first_watched_;  // by class: in readers_
  std::vector<int> readers_;                                  // that have not released it
  std::unordered_map<int, std::vector<int>> watchers_;        // streams by place in readers_
  std::vector<int> touched_;                                  // streams to look at
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  IndexedVector<FlowId, int> stream_of_flow_;
  int64_t now_ = 0;
};

}  // namespace

std::vector<ActSpan> run_step(const StepRun& run) {
  return Step(run).spans();
}

}  // namespace tessera
