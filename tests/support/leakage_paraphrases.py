"""Hand-written paraphrases: what lexical checks cannot find. Each is (held-out text, the same said in other words)."""

PARAPHRASES: tuple[tuple[str, str], ...] = (
    (
        "Which lobe of the left lung holds the nodule that grew by three millimetres since the first scan in March?",
        "A growth on the left side became three mm larger after the March baseline. Name the part of the lung it sits in.",
    ),
    (
        "Mark every cell nucleus whose outline touches the border of the image and leave all of the others empty.",
        "Only nuclei cut off by an edge are to be labelled; whatever lies fully inside stays blank.",
    ),
    (
        "The patient with the fractured hip was given contrast twice, so ignore the second series of the abdomen.",
        "Since dye had been injected two times in the hip fracture case, its later belly images do not count.",
    ),
    (
        "Count the vessels that cross the optic disc between the two marked lines and report the larger count.",
        "How many arteries or veins pass over the disc where the lines are drawn? Of both numbers hand in the higher one.",
    ),
    (
        "The missing slice lies between slice forty and slice forty two of the head scan taken without contrast.",
        "Restore number forty-one of the plain cranial series; it is the one that was removed.",
    ),
    (
        "Write a report that names the enlarged heart, the fluid at the right base, and the old rib fracture.",
        "Mention cardiomegaly, a small effusion on the right and a healed broken rib in the text.",
    ),
)
