"""What the numbers cannot say themselves: why they are as they are."""

WHY_IT_DIFFERS = """\
**No single reading of the paper gives all four of its ED figures**, and the Euclidean distance has
nothing to tune. Under `holdout` ED comes near the paper's figure on EMG and Vicon and far below it
on SCMA and AReM. Under `within` it comes within ten points of the 97.5 of SCMA, and far above the
75.3 of AReM, the 61.8 of EMG and the 73.3 of Vicon. So the paper's four rows were not all measured
in one of these two ways. It does not say what its test windows are, whom it tested, or how it
scaled; we report both protocols beside its figures and mix neither.

**The level on EMG and Vicon agrees by construction.** The paper does not name the five activities
it took. Ours were chosen so that ED, on one person of each set, lands near the paper. That makes
the rows comparable; it is no evidence for either side. What can be evidence is how the systems
stand to each other.

**What `within` measures.** With all windows of some stretch split at random in halves, a test
window has a training window one or two steps before or after it nearly always, with eight or nine
of its ten steps in common. Finding that one again is remembering, not recognising, and nearly every
distance does it well. The paper's 97.5 to 99.5 on SCMA are of that size. Ten seconds of an activity
that goes on for minutes do not tell as much of the rest of it, which is what `holdout` asks.

**Whom MLAT is compared with.** In the paper's Table 2 MLAT trains on all windows and its rivals on
100 per label. More windows help nearly every system that is given them (Table 3), so a part of the
gap in Table 2 is not the metric's doing. The tables with everyone on all windows take that part
out.

**The paper leaves its own method open**: neither the number of targets, nor the weight of the push,
nor ρ, nor when it stops is given, and Eq. 2 prints a plus where the large-margin loss has a minus.
"MLAT, paper" is Algorithm 1 with three targets, the nearest wherever they are, and the minus.
"""

WHY_LEARNING_LOSES = """\
Some hundred steps are one or two runs of a state. A metric that is asked to tell the given runs
apart can do so by what marks the *run*: where the person stood, how a sensor sat, how far a drift
had gone. Away from the given steps that is noise, and weighing it up costs accuracy that the
Euclidean distance, which learns nothing, does not lose. The nearest windows of the same state are
moreover those one step earlier or later, which agree in everything, so that pulling them nearer
teaches nothing. That is why `MLAT` can choose its targets apart in time, and why shrinkage towards
the Euclidean metric exists; how much of it is right differs from set to set and has to be chosen on
the training stream, by whole runs and never by random windows. EMG shows another limit: its
channels swing around zero, and what tells the activities apart is the size of the swing, which no
linear metric of the raw values can see. A lift such as the log magnitude gains more there than
any metric.
"""
