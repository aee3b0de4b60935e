/* The protocol of actors (actor.h), for the model checker spin: three actors, each a process of its
 * own with a mailbox, so that messages come in every order that ranks allow.
 *
 *     source --register 0, 2 slots--> middle --register 1, 1 slot--> join
 *        `----------------------------------------------------------^      the join reads register
 * 0, too
 *
 * Checked: no deadlock (every process ends, and only when all its slots are released), a slot is
 * never filled while a reader holds it, iterations come in order, and a mailbox never holds more
 * than the sum of what its slots allow. Plant a fault with -DLOST_RETURN (the join keeps a slot),
 * -DEARLY_FILL (the source does not wait for the second reader) or -DSMALL_MAILBOX.
 */
#define ITERATIONS 4
#define SOURCE 0
#define MIDDLE 1
#define JOIN 2

/* Slots of what it reads, and slots times readers of what it fills. */
#ifdef SMALL_MAILBOX
#define CAPACITY_SOURCE 3
#else
#define CAPACITY_SOURCE 4
#endif
#define CAPACITY_MIDDLE 3
#define CAPACITY_JOIN 3

mtype = {ready, released};
chan mail_source = [CAPACITY_SOURCE] of {
  mtype, byte, byte, byte
}; /* kind, register, slot, iteration */
chan mail_middle = [CAPACITY_MIDDLE] of { mtype, byte, byte, byte };
chan mail_join = [CAPACITY_JOIN] of { mtype, byte, byte, byte };

byte slots_0[2]; /* the memory of register 0: which iteration it holds */
byte slots_1[1];
byte readers_0[2]; /* who reads it right now: the memory must not change */
byte readers_1[1];

inline say(mail, kind, reg, slot, iteration) {
  assert(nfull(mail)); /* messages that find no room would be lost */
  mail !kind, reg, slot, iteration
}

active proctype source() {
  byte next = 0, slot, iteration;
  byte out[2]; /* by slot: readers that have not released it */
  do ::next < ITERATIONS&& out[next % 2] == 0->slot = next % 2;
  assert(readers_0[slot] == 0);
  slots_0[slot] = next;
#ifdef EARLY_FILL
  out[slot] = 1;
#else
  out[slot] = 2;
#endif
  say(mail_middle, ready, 0, slot, next);
  say(mail_join, ready, 0, slot, next);
  next++ ::mail_source ? released, 0, slot,
      iteration->
#ifdef EARLY_FILL
                  if ::out[slot] > 0->out[slot]-- ::else fi
#else
      assert(out[slot] > 0);
  out[slot]--
#endif
                                   ::next ==
              ITERATIONS&& out[0] == 0 &&
          out[1] == 0->break od
}

active proctype middle() {
  byte next = 0, slot, iteration, mine;
  bool here[2]; /* by slot of register 0: its iteration is here */
  byte holds[2];
  byte out = 0;
  do ::mail_middle ? ready, 0, slot, iteration->assert(!here[slot]);
  here[slot] = true;
  holds[slot] = iteration ::mail_middle ? released, 1, slot, iteration->assert(out == 1);
  out = 0 ::next < ITERATIONS && here[next % 2]&& out == 0->mine = next % 2;
  assert(holds[mine] == next); /* in order */
  readers_0[mine]++;
  assert(readers_1[0] == 0);
  slots_1[0] = next;
  assert(slots_0[mine] == next);
  readers_0[mine]--;
  out = 1;
  say(mail_join, ready, 1, 0, next);
  here[mine] = false;
  say(mail_source, released, 0, mine, next);
  next++ ::next == ITERATIONS&& out == 0->break od
}

active proctype join() {
  byte next = 0, slot, iteration, mine;
  bool here_0[2], here_1 = false;
  byte holds_0[2], holds_1;
  do ::mail_join ? ready, 0, slot, iteration->assert(!here_0[slot]);
  here_0[slot] = true;
  holds_0[slot] = iteration ::mail_join ? ready, 1, slot, iteration->assert(!here_1);
  here_1 = true;
  holds_1 = iteration ::next < ITERATIONS && here_0[next % 2]&& here_1->mine = next % 2;
  assert(holds_0[mine] == next && holds_1 == next);
  readers_0[mine]++;
  readers_1[0]++;
  assert(slots_0[mine] == next && slots_1[0] == next);
  readers_0[mine]--;
  readers_1[0]--;
  here_0[mine] = false;
  here_1 = false;
#ifdef LOST_RETURN
  if
    ::next != 1->say(mail_source, released, 0, mine, next)::else fi;
#else
  say(mail_source, released, 0, mine, next);
#endif
  say(mail_middle, released, 1, 0, next);
  next++ ::next == ITERATIONS->break od
}
