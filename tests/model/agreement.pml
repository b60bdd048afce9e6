/* src/membership/agreement.hpp as a model for Spin: every order in which messages, votes and deaths can come.
 *
 * States and functions have their names in agreement.hpp and agreement.cpp; `machine[r]` is rank r's Agreement.
 *
 *   RANKS    how many (2 to 5)                     EPOCHS   in how many every rank votes
 *   CRASHES  how many ranks may die                EXCLUDE  any ranks' votes may exclude this rank, which lives
 *   PARTED   ranks 0 and 1 may exclude each other: they then decide apart, which is no error
 *
 * The world: links keep the order of messages.  A rank dies behind any of its steps, or before the first.  What it has
 * sent last is then lost, on each link as much as the receiver's end chooses: that is every point within a step, too.
 * A death commutes with the steps of the others, so one right behind a step stands for all later ones.
 * Sets of ranks are masks.  Of a decision there is its list of those gone; calls follow from who has voted.
 *
 * Checked:  agreement    one list per epoch, also for ranks that die or are excluded behind their decision
 *           validity     who goes on has voted in that epoch, who does not is dead or was excluded
 *           sense        no message is nonsense to its receiver; every rank gets every epoch, in order
 *           termination  where nothing moves any more, who lives has decided all epochs (Termination, below);
 *                        things do not move for ever (no cycle: pan's search for non-progress)
 *
 * WITHOUT_... takes one rule out of the protocol; model_test.py shows that each is then missed. */

#ifndef RANKS
#define RANKS 3
#endif
#ifndef EPOCHS
#define EPOCHS 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef CAPACITY
#define CAPACITY 8 /* messages under way on a link; more are an error of the model, which Spin reports */
#endif

#define Idle 0 /* phases of the coordinator */
#define Voting 1
#define Proposing 2

#define kAll 255  /* kept: the receiver lacks no calls */
#define Named 255 /* in place of a list: the receiver has that decision, which is named by its epoch */
#define None 255

#define BIT(r) (1 << (r))
#define ALL (BIT(RANKS) - 1)
#define HAS(mask, r) (((mask) >> (r)) & 1)

typedef Report {
  bit known;
  byte decided, proposed; /* epochs */
  bit voted
}
typedef Agreement {
  byte coordinator, gone;
  bit excluded; /* excludedBy() >= 0 */
  byte decided, decidedGone, proposed, proposedGone;
  bit voted;
  byte phase;
  Report reports[RANKS];
  byte lacking
}
Agreement machine[RANKS];

/* order, gone, decided, its list, proposed, its list, voted */
chan link[RANKS * RANKS] = [CAPACITY] of { bit, byte, byte, byte, byte, byte, bit };
#define LINK(from, to) link[(from) * RANKS + (to)]

bool dead[RANKS];
byte crashes;
byte outcome[EPOCHS + 1]; /* the list that was decided first, and one: 0 is none */
byte votes[EPOCHS + 1];   /* who has voted in it */
byte excludedByVotes;

/* Of one step; no part of the state. */
hidden byte i, j, k, kept, before;
hidden byte told, fresh, sense, stop;
hidden byte mGone, mDecided, mDecidedGone, mProposed, mProposedGone;
hidden byte mOrder, mVoted;

#define MY machine[me]

#ifdef PARTED
#define VICTIM ((me == 0) -> 1 : ((me == 1) -> 0 : None))
#endif
#ifdef EXCLUDE
#define VICTIM ((me != EXCLUDE) -> EXCLUDE : None)
#endif

inline send(to, isOrder, known) {
  if
  :: dead[to] -> skip
  :: else ->
    LINK(me, to)!isOrder, MY.gone, MY.decided, ((MY.decided > (known)) -> MY.decidedGone : Named),
      MY.proposed, ((MY.proposed > MY.decided && MY.proposed > (known)) -> MY.proposedGone : Named), MY.voted
  fi
}

inline report(known) {
  if
  :: MY.coordinator != me -> send(MY.coordinator, 0, known)
  :: else -> skip
  fi
}

inline order() {
  for (j : 0 .. RANKS - 1) {
    if
    :: j != me && !HAS(MY.gone, j) ->
      k = (MY.reports[j].known -> MY.reports[j].proposed : 0);
      k = (k < MY.proposed -> k : MY.proposed);
      send(j, 1, k)
    :: else -> skip
    fi
  }
  j = 0
}

#ifdef WITHOUT_WAITING_FOR_VOTES
#define HAS_VOTED(rank) 1
#else
#define HAS_VOTED(rank) MY.reports[rank].voted
#endif
#ifdef WITHOUT_FETCHING_PROPOSALS
#define PROPOSAL_IS_HERE(rank) 1
#else
#define PROPOSAL_IS_HERE(rank) (MY.reports[rank].proposed <= MY.proposed)
#endif
#ifdef WITHOUT_WAITING_FOR_KEPT
#define KEEPS(rank) 1
#else
#define KEEPS(rank) (MY.reports[rank].proposed == MY.proposed)
#endif
#define SUFFICES(rank) (MY.reports[rank].known && ((MY.phase == Proposing) -> KEEPS(rank) : \
  (HAS_VOTED(rank) && MY.reports[rank].decided == MY.decided && PROPOSAL_IS_HERE(rank))))

inline enter(next) {
  MY.phase = next;
  MY.lacking = 0;
  for (j : 0 .. RANKS - 1) {
    if
    :: j != me && !HAS(MY.gone, j) && !SUFFICES(j) -> MY.lacking = MY.lacking | BIT(j)
    :: else -> skip
    fi
  }
  j = 0
}

inline decide(epoch, list) {
  k = list; /* which may be about to change */
  assert(epoch == MY.decided + 1);
  MY.decided = epoch;
  MY.decidedGone = k;
  MY.proposed = MY.decided;
  MY.proposedGone = k;
  MY.voted = 0;
  checkDecision();
  if
  :: MY.phase == Idle -> skip
  :: else -> enter(Voting); order()
  fi
}

/* Excluded, and when the last of the others ended there was nobody left to say so. */
#ifdef EXCLUDE
#define IS_UNTOLD(me) ((me) == EXCLUDE && MY.gone == (ALL & ~BIT(me)))
#else
#ifdef PARTED
#define IS_UNTOLD(me) 1
#else
#define IS_UNTOLD(me) 0
#endif
#endif

/* Agreement and validity. */
inline checkDecision() {
  if
  :: IS_UNTOLD(me) -> skip
  :: else ->
    assert(outcome[MY.decided] == 0 || outcome[MY.decided] == MY.decidedGone + 1);
    outcome[MY.decided] = MY.decidedGone + 1
  fi;
  assert(!HAS(MY.decidedGone, me));
  for (j : 0 .. RANKS - 1) {
    assert((HAS(MY.decidedGone, j) -> (dead[j] || HAS(excludedByVotes, j)) : HAS(votes[MY.decided], j)))
  }
  j = 0
}

#ifdef WITHOUT_GOING_ON_WITH_A_PROPOSAL
#define PROPOSES_ANEW 1
#else
#define PROPOSES_ANEW (MY.proposed == MY.decided)
#endif

inline coordinate() {
  if
  :: MY.phase == Idle -> enter(Voting); order()
  :: else -> skip
  fi;
  stop = 0;
  do
  :: stop || MY.lacking != 0 -> break
  :: else ->
    if
    :: MY.phase == Proposing -> decide(MY.proposed, MY.proposedGone)
    :: MY.phase != Proposing && !MY.voted -> stop = 1
    :: else ->
      if
      :: PROPOSES_ANEW -> /* countVotes() */
        MY.proposed = MY.decided + 1;
        MY.proposedGone = MY.gone
      :: else -> skip
      fi;
      enter(Proposing);
      order()
    fi
  od
}

#ifdef WITHOUT_TELLING_THE_EXCLUDED
#define TELLS(rank) 0
#else
#define TELLS(rank) (MY.reports[rank].known || (rank) == MY.coordinator)
#endif

inline addGone(rank) {
  fresh = ((rank) != me && !HAS(MY.gone, rank));
  if
  :: !fresh -> skip
  :: else ->
    MY.gone = MY.gone | BIT(rank);
    if
    :: TELLS(rank) -> send(rank, 1, kAll)
    :: else -> skip
    fi;
    forgetReport(rank);
#ifndef WITHOUT_GIVING_UP_THE_DEAD
    MY.lacking = MY.lacking & ~BIT(rank);
#endif
    do
    :: HAS(MY.gone, MY.coordinator) -> MY.coordinator++
    :: else -> break
    od;
    if /* what the dead have sent is no longer heard */
    :: dead[rank] -> discard(rank, me)
    :: else -> skip
    fi
  fi
}

inline forgetReport(rank) {
  MY.reports[rank].known = 0;
  MY.reports[rank].decided = 0;
  MY.reports[rank].proposed = 0;
  MY.reports[rank].voted = 0
}

inline discard(from, to) {
  do
  :: nempty(LINK(from, to)) -> LINK(from, to)?_, _, _, _, _, _, _
  :: empty(LINK(from, to)) -> break
  od
}

inline vote() {
  if
  :: victim != None -> addGone(victim); excludedByVotes = excludedByVotes | BIT(victim)
  :: else -> skip
  fi;
  votes[MY.decided + 1] = votes[MY.decided + 1] | BIT(me);
  MY.voted = 1;
  if
  :: MY.coordinator == me -> coordinate()
  :: else -> report(kAll)
  fi
}

inline markGone(rank) {
  before = MY.coordinator;
  addGone(rank);
  if
  :: fresh && MY.coordinator == me && (MY.phase != Idle || MY.voted) -> coordinate()
  :: fresh && MY.coordinator != me && MY.coordinator != before && MY.voted -> report(kAll)
  :: else -> skip
  fi
}

/* sense: the message means something to this rank. */
inline learn() {
  sense = 1;
  stop = 0;
  if
  :: mDecided > MY.decided ->
    if
    :: mDecidedGone == Named && MY.proposed != mDecided -> sense = !mOrder; stop = 1
    :: mDecidedGone == Named && MY.proposed == mDecided -> decide(mDecided, MY.proposedGone)
    :: else -> decide(mDecided, mDecidedGone)
    fi
  :: else -> skip
  fi;
  if
  :: stop || mProposed != MY.decided + 1 || MY.proposed == mProposed -> skip
  :: else ->
    if
    :: mProposedGone == Named -> sense = !mOrder
    :: else -> MY.proposed = mProposed; MY.proposedGone = mProposedGone
    fi
  fi
}

#ifdef WITHOUT_AN_END_OF_ANSWERS
#define ANSWERS 1
#else
#define ANSWERS (!told)
#endif

inline accept(from) {
  told = HAS(mGone, me);
  if
  :: HAS(MY.gone, from) && ANSWERS -> send(from, 1, kAll)
  :: HAS(MY.gone, from) && !ANSWERS -> skip
  :: !HAS(MY.gone, from) && told -> MY.excluded = 1
  :: else ->
    for (i : 0 .. RANKS - 1) {
      if
      :: HAS(mGone, i) -> addGone(i)
      :: else -> skip
      fi
    }
    i = 0;
    kept = mProposed;
    if
    :: !mOrder ->
      MY.reports[from].known = 1;
      MY.reports[from].decided = mDecided;
      MY.reports[from].proposed = kept;
      MY.reports[from].voted = mVoted
    :: else -> skip
    fi;
    learn();
    assert(sense);
    if
#ifndef WITHOUT_ANSWERS_TO_ORDERS
    :: mOrder -> report(kept)
#endif
    :: !mOrder && MY.coordinator == me ->
      if
      :: SUFFICES(from) -> MY.lacking = MY.lacking & ~BIT(from)
      :: else -> skip
      fi;
      coordinate()
    :: else -> skip
    fi
  fi
}

inline die() {
  dead[me] = true;
  for (i : 0 .. RANKS - 1) {
    forgetReport(i);
    discard(i, me);
    if /* those who have it for dead already hear nothing more */
    :: HAS(machine[i].gone, me) -> discard(me, i)
    :: else -> skip
    fi
  }
  i = 0;
  MY.coordinator = 0;
  MY.gone = 0;
  MY.excluded = 0;
  MY.decided = 0;
  MY.decidedGone = 0;
  MY.proposed = 0;
  MY.proposedGone = 0;
  MY.voted = 0;
  MY.phase = Idle;
  MY.lacking = 0
}

#define HEARS(rank) ((rank) < RANKS && (rank) != me && nempty(LINK(rank, me)))
#define LOSES(rank) ((rank) < RANKS && (rank) != me && dead[rank] && !HAS(MY.gone, rank))

active [RANKS] proctype Rank() {
  byte me = _pid, from = None, victim = None;
  bit dies;
  goto behind; /* none yet, and may die */
end:
  do
  :: atomic { !MY.voted && MY.decided < EPOCHS ->
#ifdef VICTIM
      if
      :: VICTIM != None && !HAS(MY.gone, VICTIM) -> victim = VICTIM
      :: true
      fi;
#endif
      d_step { vote(); victim = None }
      goto behind
    }
  :: atomic { HEARS(0) || HEARS(1) || HEARS(2) || HEARS(3) || HEARS(4) ->
      if
      :: HEARS(0) -> from = 0
      :: HEARS(1) -> from = 1
      :: HEARS(2) -> from = 2
      :: HEARS(3) -> from = 3
      :: HEARS(4) -> from = 4
      fi;
      d_step {
        LINK(from, me)?mOrder, mGone, mDecided, mDecidedGone, mProposed, mProposedGone, mVoted;
        accept(from);
        from = None
      }
      goto behind
    }
  :: atomic { LOSES(0) || LOSES(1) || LOSES(2) || LOSES(3) || LOSES(4) ->
      if
      :: LOSES(0) -> from = 0
      :: LOSES(1) -> from = 1
      :: LOSES(2) -> from = 2
      :: LOSES(3) -> from = 3
      :: LOSES(4) -> from = 4
      fi;
      d_step { markGone(from); from = None }
behind:
      if
      :: MY.excluded -> dies = 1 /* it ends its links, as if it died */
      :: !MY.excluded && crashes < CRASHES -> crashes++; dies = 1
      :: !MY.excluded
      fi;
      if
      :: dies ->
        d_step { die(); dies = 0 }
        break
      :: else -> skip
      fi
    }
  od
}

active proctype Termination() {
  timeout;
  d_step {
    for (i : 0 .. RANKS - 1) {
      assert(dead[i] || machine[i].decided == EPOCHS)
    }
    i = 0
  }
}
