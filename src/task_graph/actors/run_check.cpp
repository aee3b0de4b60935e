#include "task_graph/actors/run_check.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

/// The reason why an act waits for another. Together with a register it is the label of an edge.
enum class Why { kOrder, kReady, kReleased, kOverwrite };
constexpr int kWhys = 4;

int label_of(Why why, RegisterIndex reg) {
  return reg.value() * kWhys + static_cast<int>(why);
}

/// The acting parties and the senders of their exchanges. A party is a rank, or a set of ranks that
/// do the same.
struct Parties {
  Orders orders;
  std::function<std::vector<int>(TaskId exchange, size_t part, int receiver)> senders;
};

/// Which edges of the marked graph are made.
enum class Edges { kAll, kWithoutTokens };

class MarkedGraphMaker {
 public:
  MarkedGraphMaker(const TaskGraph& graph, const Parties& parties, Edges edges)
      : graph_(graph), parties_(parties), edges_(edges), overwritten_(graph.registers.size(), -1) {
    made_.vertices = static_cast<int>(parties.orders.size()) * graph.tasks.size();
    for (const std::vector<TaskId>& order : parties.orders) {
      auto& position = positions_.emplace_back(graph.tasks.size(), -1);
      for (int i = 0; i < std::ssize(order); ++i) position[order[i]] = i;
    }
    int count = 0;
    for (const Task& task : graph.tasks)
      for (RegisterIndex reg : task.overwrites)
        if (int& number = overwritten_[reg]; number < 0) number = count++;
    readers_.assign(parties.orders.size(), std::vector<std::vector<int>>(count));
  }

  MarkedGraph make() {
    for (int party = 0; party < party_count(); ++party) {
      add_order(party);
      for (TaskId task : order(party)) add_inputs(party, task);
    }
    for (int party = 0; party < party_count(); ++party)
      for (TaskId task : order(party)) add_overwrites(party, task);
    return std::move(made_);
  }

 private:
  int party_count() const { return static_cast<int>(parties_.orders.size()); }
  const std::vector<TaskId>& order(int party) const { return parties_.orders[party]; }
  Task task_at(TaskId task) const { return graph_.tasks[task]; }
  Register register_at(RegisterIndex reg) const { return graph_.registers[reg]; }
  int position(int party, TaskId task) const { return positions_[party][task]; }
  int vertex(int party, TaskId task) const { return party * graph_.tasks.size() + task.value(); }

  void add(const MarkedEdge& edge) {
    if (edges_ == Edges::kAll || edge.tokens == 0) made_.edges.push_back(edge);
  }

  void add_order(int party) {
    std::array<std::vector<TaskId>, kTaskStreams> streams;
    for (TaskId task : order(party))
      streams[static_cast<size_t>(stream_of(graph_, task_at(task)))].push_back(task);
    for (const std::vector<TaskId>& tasks : streams)
      for (size_t i = 0; i < tasks.size(); ++i) {
        const bool is_last = i + 1 == tasks.size();
        add({vertex(party, tasks[i]), vertex(party, tasks[is_last ? 0 : i + 1]), is_last ? 1 : 0,
             label_of(Why::kOrder, RegisterIndex(0))});
      }
  }

  void add_inputs(int party, TaskId id) {
    const Task& task = task_at(id);
    if (task.kind == Task::Kind::kExchange) {
      for (size_t part = 0; part < task.parts.size(); ++part)
        for (int sender : parties_.senders(id, part, party))
          add_link(sender, task.inputs[part], party, id);
      return;
    }
    for (RegisterIndex input : task.inputs) add_link(party, input, party, id);
  }

  void add_link(int owner, RegisterIndex reg, int reader, TaskId task) {
    const int from = vertex(owner, register_at(reg).producer), to = vertex(reader, task);
    add({from, to, 0, label_of(Why::kReady, reg)});
    add({to, from, register_at(reg).slots, label_of(Why::kReleased, reg)});
    if (const int number = overwritten_[reg]; number >= 0) readers_[owner][number].push_back(to);
  }

  /// If the register is filled later in the order, the act waits for the readers of the previous
  /// iteration.
  void add_overwrites(int party, TaskId task) {
    for (RegisterIndex reg : task_at(task).overwrites) {
      const int tokens = position(party, register_at(reg).producer) < position(party, task) ? 0 : 1;
      for (int reader : readers_[party][overwritten_[reg]])
        if (reader != vertex(party, task))
          add({reader, vertex(party, task), tokens, label_of(Why::kOverwrite, reg)});
    }
  }

  const TaskGraph& graph_;
  const Parties& parties_;
  const Edges edges_;
  IndexedVector<RegisterIndex, int>
      overwritten_;  // a number for each that a task overwrites; or -1
  std::vector<IndexedVector<TaskId, int>> positions_;  // by party
  /// By party and number of the overwritten register: the acts that read it.
  std::vector<std::vector<std::vector<int>>> readers_;
  MarkedGraph made_;
};

Parties ranks_of(const TaskActors& actors, const Orders& orders) {
  return {orders, [&actors](TaskId exchange, size_t part, int receiver) {
            return actors.senders(exchange, part, receiver);
          }};
}

/// One rank of each set that is in the same meshes.
std::vector<Rank> one_of_each(const TaskGraph& graph, const std::vector<Rank>& ranks) {
  std::map<std::vector<bool>, Rank> first;
  for (Rank rank : ranks) {
    std::vector<bool> meshes;
    for (const MeshPtr& mesh : graph.meshes)
      meshes.push_back(mesh->coordinate_of(rank).has_value());
    first.try_emplace(meshes, rank);
  }
  std::vector<Rank> chosen;
  for (const auto& [meshes, rank] : first) chosen.push_back(rank);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// The parties for sets of ranks, as if all ranks of a mesh sent to all receivers.
Parties sets_of(const TaskActors& actors) {
  const auto senders = [&actors](TaskId exchange, size_t, int) {
    const MeshIndex mesh = actors.graph().registers[actors.graph().tasks[exchange].inputs[0]].mesh;
    std::vector<int> found;
    for (int index = 0; index < actors.rank_count(); ++index)
      if (actors.coordinate(index, mesh)) found.push_back(index);
    return found;
  };
  return {orders_of(actors), senders};
}

std::string actor_text(const TaskActors& actors, ActorId actor) {
  const Rank rank = actors.ranks()[actors.rank_index_of(actor)];
  return "'" + actors.graph().tasks[actors.task_of(actor)].name + "' of rank " +
         std::to_string(rank);
}

void check_complete(const TaskActors& actors, const Orders& orders) {
  ensure(std::ssize(orders) == actors.rank_count(), "every rank has an order list");
  for (int index = 0; index < actors.rank_count(); ++index) {
    std::vector<TaskId> wanted = order_of(actors, index), given = orders[index];
    std::sort(wanted.begin(), wanted.end());
    std::sort(given.begin(), given.end());
    ensure(wanted == given, [&] {
      return "the order list of rank " + std::to_string(actors.ranks()[index]) + " has " +
             std::to_string(given.size()) + " tasks: each of the " + std::to_string(wanted.size()) +
             " that it acts in belongs in it once";
    });
  }
}

/// Checks a graph whose vertices are exchanges, with an edge from each to the next one of a rank.
void check_exchange_order(const TaskActors& actors, const Orders& orders) {
  MarkedGraph sequence{actors.graph().tasks.size(), {}};
  for (int index = 0; index < std::ssize(orders); ++index) {
    TaskId last;
    for (TaskId task : orders[index]) {
      if (actors.graph().tasks[task].kind != Task::Kind::kExchange) continue;
      if (!last.is_none()) sequence.edges.push_back({last.value(), task.value(), 0, index});
      last = task;
    }
  }
  std::string cycle;
  for (const MarkedEdge& edge : find_stuck_cycle(sequence))
    cycle += "\n  rank " + std::to_string(actors.ranks()[edge.label]) + " does '" +
             actors.graph().tasks[TaskId(edge.from)].name + "' before '" +
             actors.graph().tasks[TaskId(edge.to)].name + "'";
  ensure(cycle.empty(),
         [&] { return "task graph: ranks do the same exchanges in different orders:" + cycle; });
}

}  // namespace

Orders orders_of(const TaskActors& actors) {
  Orders orders;
  for (int index = 0; index < actors.rank_count(); ++index)
    orders.push_back(order_of(actors, index));
  return orders;
}

MarkedGraph make_marked_graph(const TaskActors& actors, const Orders& orders) {
  return MarkedGraphMaker(actors.graph(), ranks_of(actors, orders), Edges::kAll).make();
}

std::string edge_text(const TaskActors& actors, const MarkedEdge& edge) {
  const std::string& reg = actors.graph().registers[RegisterIndex(edge.label / kWhys)].name;
  const std::string before = actor_text(actors, edge.from), after = actor_text(actors, edge.to);
  switch (static_cast<Why>(edge.label % kWhys)) {
    case Why::kOrder: return after + " comes after " + before + " in the order list";
    case Why::kReady: return after + " reads '" + reg + "' of " + before;
    case Why::kReleased:
      return after + " has no free slot of '" + reg + "' before " + before + " releases one";
    case Why::kOverwrite: return after + " overwrites '" + reg + "', which " + before + " reads";
  }
  throw InternalError("unknown reason to wait");
}

void check_run(const TaskActors& actors, const Orders& orders) {
  check_complete(actors, orders);
  std::string cycle;
  for (const MarkedEdge& edge : find_stuck_cycle(make_marked_graph(actors, orders)))
    cycle += "\n  " + edge_text(actors, edge);
  ensure(cycle.empty(), [&] {
    return "task graph: deadlock: these acts wait for each other, and none can begin:" + cycle;
  });
  check_exchange_order(actors, orders);
}

void check_run(const TaskGraph& graph, const std::vector<Rank>& ranks) {
  for (const Task& task : graph.tasks)
    for (const KernelStep& step : task.steps)
      if (step.control)
        for (const TaskGraph& region : step.control->regions) check_run(region, ranks);
  const std::shared_ptr<const TaskGraph> lent(std::shared_ptr<const TaskGraph>(), &graph);
  const TaskActors sets(lent, one_of_each(graph, ranks));
  const Parties parties = sets_of(sets);
  const MarkedGraph waits = MarkedGraphMaker(graph, parties, Edges::kWithoutTokens).make();
  if (find_stuck_cycle(waits).empty()) return;
  const TaskActors actors = find_actors(lent, ranks);
  check_run(actors, orders_of(actors));
}

}  // namespace tessera
