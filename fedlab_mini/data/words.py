"""Words and sentences of the synthetic messages. All of it was written for this package.

A sentence names slots in braces; a slot is filled from the list of that name, the front of a list
more often than its end. `{rare}` is an unusual spelling or form of a word from the lists.
"""

from __future__ import annotations

SLOTS = {
    "noun": """
        time day thing way home work phone car house bus train bag money job class book film game
        key door ticket photo dinner lunch coffee shop room bed message number word question answer
        party weekend lesson exam paper laptop song band bike coat shoe shirt jacket box letter
        parcel plan idea list story trip holiday flight hotel map camera charger battery screen
        laundry kitchen garden window table chair sofa lamp mirror towel blanket pillow umbrella
        wallet purse ring watch scarf glove hat sock bottle glass cup plate spoon kettle fridge
        oven cooker bin light switch cable plug radio guitar piano drum ball racket net goal match
        team coach score player referee tune chorus poem novel magazine newspaper notebook pencil
        pen folder desk printer keyboard mouse file email website password account form receipt
        bill rent deposit budget wage shift rota manager boss office meeting project report
        deadline essay lecture seminar library tutor teacher student pupil homework course degree
        interview uniform doctor dentist nurse clinic chemist tablet cough cold headache fever
        plaster dog cat puppy kitten rabbit hamster parrot fish horse cow sheep duck farm field
        river lake beach sand wave boat ferry harbour island mountain hill valley forest tree leaf
        flower rose daisy seed soil rain snow wind storm cloud sun sky star moon fog ice puddle
        bridge tunnel road lane corner roundabout junction pavement kerb lorry van taxi tram
        platform station carriage seat passenger driver queue crowd neighbour landlord flatmate
        cousin uncle aunt nephew niece grandad granny baby toddler twin couple wedding birthday
        present candle balloon card cake invitation anniversary surprise secret joke laugh smile
        hug tear dream nap alarm snooze breakfast supper snack recipe flour butter sugar pepper
        onion carrot potato tomato pasta rice noodle curry soup stew sauce cheese bread toast jam
        honey biscuit muffin pancake pudding melon peach cherry grape lemon orange apple banana
        pear mango juice tea milk water lemonade smoothie barbecue picnic hamper basket rug tent
        rucksack compass torch rope ladder hammer nail screw drill paint brush bucket mop sponge
        soap shampoo comb razor perfume lipstick necklace bracelet earring button zip thread
        needle fabric pattern curtain carpet wallpaper shelf drawer wardrobe attic cellar garage
        shed fence gate hedge lawn path bench fountain statue museum gallery theatre stage ticket
        actor scene costume mask puppet magician clown circus zoo lion tiger monkey penguin
        elephant giraffe dolphin whale shark crab shell pebble cliff lighthouse anchor sail""",
    "place": """
        home town work school college the_gym the_shop the_station the_park the_cinema the_library
        the_office uni the_market the_beach the_pub the_cafe the_bank the_pool your_place my_place
        the_bakery the_hall the_airport the_clinic the_flat the_museum the_corner the_bridge
        the_stadium the_harbour the_theatre the_garage the_chemist the_village the_mall""",
    "when": """
        now later today tonight tomorrow soon this_morning this_afternoon after_work after_lunch
        next_week on_monday on_friday at_the_weekend on_saturday on_sunday in_the_evening
        after_class before_dinner on_tuesday on_wednesday on_thursday at_noon at_midnight
        this_month next_month in_a_bit in_a_while first_thing at_teatime after_dark""",
    "verb": """
        go come get see call meet know tell eat sleep buy take give make find ask bring send leave
        stay watch read finish start wait try help talk think pick drop check cook clean study
        write pay drive walk run play change book choose collect borrow lend return carry move
        open close fix wash iron pack unpack travel visit join invite cancel order share print
        copy charge answer explain repeat forget remember promise decide hurry relax rest rehearse
        practise train swim climb skate dance sing paint draw build mend sew knit bake boil fry
        grill chop stir taste swallow chew pour spill wipe sweep dust tidy hoover vacuum arrange
        measure weigh count guess bet argue agree apologise complain whisper shout laugh cry yawn
        sneeze cough shiver sweat stretch bend lift push pull throw catch kick hit miss win lose
        score cheat cheer clap wave nod point stare blink smile frown hug tickle pinch scratch""",
    "ving": """
        going coming doing getting having thinking waiting working watching leaving eating sleeping
        looking making talking sitting driving walking trying reading cooking cleaning studying
        finishing starting shopping running playing travelling moving packing learning writing
        singing dancing laughing smiling crying worrying hoping planning listening cycling jogging
        swimming painting fishing camping baking knitting gardening revising typing printing
        wandering queueing parking shivering dreaming snoring chatting moaning joking rushing""",
    "adj": """
        good nice late busy happy tired sorry free ready great fine bad sick hungry early big small
        cold hot long old new funny cute sweet lovely boring crazy lazy quiet loud easy hard cheap
        expensive lucky sad angry bored excited worried proud shy nervous calm brave clever silly
        strange weird odd normal simple tricky quick slow fast heavy light thin thick soft rough
        smooth clean dirty messy tidy wet dry warm cool fresh stale sour salty spicy bitter tasty
        plain fancy smart scruffy modern broken lost missing spare empty full half_empty sleepy
        grumpy cheerful gentle kind rude polite honest fair mean jealous lonely awake asleep
        fabulous brilliant awful terrible horrible dreadful gorgeous handsome pretty ugly tiny huge
        enormous narrow wide deep shallow steep flat round square sharp blunt shiny dull bright""",
    "adv": """
        just really so still already too also again maybe actually probably always never almost
        only quite even anyway perhaps definitely totally finally suddenly usually sometimes
        hardly nearly honestly seriously exactly surely slowly quickly quietly badly luckily sadly
        apparently obviously basically hopefully gladly barely mostly rarely often twice once""",
    "who": """
        mate dear love mum dad babe honey buddy pal sis bro darling boss sweetie chum granny auntie
        uncle cuz champ sunshine petal captain professor neighbour""",
    "det": """
        the your my a this that our his her some any their another every its which each most
        enough both whose half""",
    "you": """
        you u ya they we he she someone everyone everybody people anyone somebody nobody""",
    "and": """
        and or but then n plus while because cos if since unless until after before though""",
    "filler": """
        ok lol yeah yup hey haha hmm oh well yes no hi sure cool hello thanks sorry wow aww eh ah
        oops yay nah please nope cheers bless gosh blimey phew ooh ugh yikes hooray whoops alas""",
}

HAM = """
    are {you} {ving} to {place} {when}
    i am {ving} {adv}
    i will {verb} {you} {when}
    do {you} want to {verb} {when}
    can {you} {verb} {det} {noun} for me
    did {you} {verb} {det} {noun}
    i am at {place} {adv}
    what are {you} {ving}
    i have {det} {noun} {when}
    {filler} i was {ving} {and} did not see it
    see {you} {when}
    call me when {you} get to {place}
    it is {adv} {adj} here
    how was {det} {noun} {who}
    i do not know if i can {verb} {when}
    {det} {noun} is {adv} {adj}
    {you} are so {adj}
    that is {adv} {adj} of {you}
    let me know when {you} {verb}
    have a {adj} {noun} {who}
    i {adv} forgot {det} {noun}
    we are {ving} at {place}
    where are {you} {who}
    he said {det} {noun} was {adj}
    she wants to {verb} with us {when}
    what time do {you} {verb} {when}
    i need to {verb} {and} {verb} first
    no need to {verb} {det} {noun}
    i think it is {adj} but not {adj}
    tell me about {det} {noun} {and} {det} {noun}
    have {you} got {det} {noun}
    they are {ving} {adv}
    i miss {you} {adv}
    good morning {who}
    good night {and} sleep well
    hope {det} {noun} is {adj}
    thanks for {det} {noun}
    {filler} {you} can {verb} it {when}
    i was thinking of {you} {when}
    {det} {noun} {and} {det} {noun} are in {det} {noun}
    is it ok if we {verb} {when}
    do not {verb} without me
    there is a {adj} {noun} in {place}
    u can {verb} {det} {noun} if u want
    wat are u {ving} {when}
    no time now but will {verb} {when}
    im {ving} home from {place}
    i got {det} {noun} {you} asked for
    we should {verb} more {noun} together
    which {noun} do {you} like
    so {adj} {and} so {adj}
    why did {you} not {verb}
    will be there {when} with {det} {noun}
    just {ving} with {det} {noun} {and} some {noun}
    {you} know i {adv} {verb} that {noun}
    it was {adj} to see {you} {and} {det} {noun}
    dont worry about {det} {noun}
    i had {noun} {and} {noun} for {noun}
    {det} {noun} looks {adj} {who}
    got to {verb} {det} {noun} before it gets {adj}
    {rare} {filler}
    {filler} {rare} then
    that {rare} {noun}
    {you} {rare} me
    i {adv} {rare}
    {rare} {and} {rare}
    my {rare} {noun} is {adj}
    at {rare} with {rare}
    all {rare} now
    {det} {noun} of the {rare}
    {rare} says {filler}
    with {rare} {when}
    some {rare} for {you}
    {adj} {noun} {adv} {ving} {noun}
    {verb} {noun} {verb} {noun} {when}
    {noun} {noun} {adj} {noun}
    {ving} {noun} {ving} {noun} {adv}
    {adv} {adj} {noun} {who}
    {verb} {adj} {noun} {place}
    {adj} {noun} needs {adj} {noun}
    {adv} {verb} {adj} {noun} {when}
    {noun} broken {verb} {noun} {filler}
    {verb} {verb} {verb} {filler}
    {noun} for {noun} {place}
    {adj} {adj} {noun} {filler}
"""

HAM_SHORT = """
    {filler} {who}
    {filler}
    ok {when}
    {rare}
    where {who}
    i {verb}
    yes {when}
    no {noun}
    so {adj}
"""

HAM_NUMBER = {
    1: "at {n}|in {n} mins|{n} of us|by {n}|{n} more",
    2: "in {n} mins|about {n} people|page {n}|bus {n}|{n} of them",
    3: "room {n}|at {h}|page {n}|flat {n}",
    4: "at {hh}|door code {n}|the {n} train|order {n}",
    11: "my new number is {n}|ring me on {n}|text me at {n}",
}

# Lists for sentences that sell something.
SPAM_SLOTS = {
    "prize": """
        prize cash holiday award phone voucher camera bonus reward ringtone gift laptop weekend
        cruise console trip jackpot hamper watch headset telly break""",
    "promo": """
        free new latest guaranteed exclusive special weekly bonus final great top extra huge
        limited amazing private instant double luxury premium unbeatable sensational""",
    "product": """
        ringtones logos games minutes texts calls tones pictures tariffs handsets videos jokes
        quizzes credits messages horoscopes wallpapers polls tunes downloads puzzles previews""",
    "act": """
        call text reply claim ring txt send visit collect dial order join win enter subscribe
        register upgrade redeem confirm activate""",
    "where": """
        our_website our_store the_draw the_club our_line your_area the_service the_quiz our_shop
        the_competition the_chatline the_game our_network""",
}

SPAM = """
    you have won a {promo} {prize}
    {act} now to {act} your {promo} {prize}
    urgent your mobile has been selected for a {prize}
    {promo} {product} for your mobile
    reply stop to end or {act} to {where}
    this is our {promo} attempt to contact you
    get {promo} {product} and a {prize} {when}
    your {prize} is waiting to be {rare}
    {promo} {promo} offer for customers of {where}
    win a {prize} or a {prize} every week
    to {act} just {act} from your mobile
    only from {where} and only {when}
    ts and cs apply see {where}
    do not miss your {promo} {prize}
    dear customer your {prize} is ready to {act}
    text {rare} for {promo} {product}
    the best {product} with {promo} {rare}
    you are entitled to {promo} {product}
    choose from {product} {product} or {product}
    want a {promo} {prize} then {act} {where}
    we have tried to contact you about your {prize}
    {act} {rare} to {where}
    no {rare} needed
    {promo} {rare} {product}
    {prize} {rare} {promo}
    with {promo} {product} and {noun} {noun}
    somebody near you wants to {verb} {act} {where}
    hi it is {rare} and i am {ving} {when}
    are you {adj} and {adj} then {act}
    for {adj} {noun} and {adj} {product}
    {adj} {noun} {promo} {product}
    {noun} {noun} {prize}
    {verb} {noun} {act} {product}
"""

SPAM_NUMBER = {
    1: "win {n} times|{n} free|{n} a week|level {n}",
    2: "over {n}s only|{n} prizes|within {n} hours|{n}p a text",
    3: "£{n} cash|{n}p per min|{n} free texts|£{n} voucher",
    4: "{n} points|code {n}|£{n} prize|box {n}",
    5: "text to {n}|txt win to {n}|send it to {n}|reply to {n}",
    11: "call {n}|ring {n} now|call {n} from a landline|customer line {n}",
}
