/* The ring buffer of mailbox.h and the sleep of its owner, for the model checker spin: two threads
 * push, one takes. One step of a process is one access to shared memory, which is assumed to be
 * sequentially consistent.
 *
 * Checked: the owner gets every message once and those of a thread in order, no cell is overwritten
 * before it was taken, and the owner does not sleep for ever while a message waits (else some
 * process does not end). Plant a fault with -DLATE_ASLEEP (the owner checks for messages before it
 * sets `asleep`) or -DHASTY_ROUSE (a sender wakes the owner before the message is in its cell).
 */
#define CELLS 4
#define MESSAGES 3 /* of each thread */
#define CREDITS 2  /* messages in flight of each thread: two threads fill the ring */

byte pushed = 0; /* pushes; with `asleep` one word */
bool asleep = false;
byte turn[CELLS];
byte cell[CELLS]; /* 16 * thread + number of its message */

bool locked = false;
bool in_wait = false; /* the owner is in the condition variable's wait */
byte credits[2];

inline lock() {
  atomic {
    !locked->locked = true
  }
}
inline unlock() {
  locked = false
}

inline rouse() {
  atomic {
    first = asleep;
    asleep = false
  };
  if
    ::first->lock();
  unlock();
  in_wait = false /* notify: nothing happens when it does not wait */
      ::else fi
}

proctype thread(byte me) {
  byte sent = 0, number;
  bool saw, first;
  do ::sent < MESSAGES->atomic{credits[me] > 0->credits[me]--};
  atomic {
    number = pushed;
    saw = asleep;
    pushed++
  };
  assert(turn[number % CELLS] == number);
#ifdef HASTY_ROUSE
  if
    ::saw->rouse()::else fi;
#endif
  cell[number % CELLS] = 16 * me + sent;
  turn[number % CELLS] = number + 1;
#ifndef HASTY_ROUSE
  if
    ::saw->rouse()::else fi;
#endif
  sent++ ::else->break od
}

proctype owner() {
  byte taken = 0, message, seen;
  byte got[2];
  do ::taken == 2 * MESSAGES->break ::else->if ::turn[taken % CELLS] == taken + 1->message = cell[taken % CELLS];
  assert(message % 16 == got[message / 16]);
  got[message / 16]++;
  turn[taken % CELLS] = taken + CELLS;
  taken++;
  credits[message / 16]++ ::else->lock();
#ifdef LATE_ASLEEP
  seen = pushed;
  asleep = true;
#else
  atomic {
    seen = pushed;
    asleep = true
  };
#endif
  if
    ::seen != taken->unlock()::else->atomic {
      in_wait = true;
      unlock()
    };
  atomic{!in_wait&& !locked->locked = true};
  unlock() fi fi od
}

init {
  byte i = 0;
  atomic {
    do ::i < CELLS->turn[i] = i;
    i++ ::else->break od;
    credits[0] = CREDITS;
    credits[1] = CREDITS;
    run thread(0);
    run thread(1);
    run owner()
  }
}
